import pytest

from llmgw.core.node_lifecycle import next_reachability, shown_state
from llmgw.schema.node import Intent, NodeState, Reachability
from llmgw.testing.factories import make_node

CONNECTED, UNREACHABLE, LOST = Reachability.CONNECTED, Reachability.UNREACHABLE, Reachability.LOST


@pytest.mark.parametrize(
    ("reachability", "intent", "shown"),
    [
        (LOST, Intent.DRAINING, NodeState.LOST),
        (UNREACHABLE, Intent.CORDONED, NodeState.UNREACHABLE),
        (CONNECTED, Intent.DRAINING, NodeState.DRAINING),
        (CONNECTED, Intent.CORDONED, NodeState.CORDONED),
        (CONNECTED, Intent.NONE, NodeState.READY),
    ],
)
def test_reachability_hides_the_intent(reachability, intent, shown):
    assert shown_state(make_node(reachability=reachability, intent=intent)) is shown


def after(was: Reachability, silence_s: float, *, may_lose: bool = True, heard: bool = True) -> Reachability:
    return next_reachability(
        make_node(reachability=was),
        silence_s=silence_s,
        unreachable_after_s=15,
        lost_after_s=300,
        may_lose=may_lose,
        heard=heard,
    )


def test_silence_makes_a_node_unreachable_and_later_lost():
    assert after(CONNECTED, 14.9) is CONNECTED
    assert after(CONNECTED, 15) is UNREACHABLE
    assert after(UNREACHABLE, 299) is UNREACHABLE
    assert after(UNREACHABLE, 300) is LOST


def test_a_sign_of_life_ends_unreachable_and_lost():
    assert after(UNREACHABLE, 0) is CONNECTED
    assert after(LOST, 0) is CONNECTED


def test_a_node_whose_engines_answer_is_not_lost():
    assert after(UNREACHABLE, 9999, may_lose=False) is UNREACHABLE


def test_only_a_sign_of_life_ends_lost():
    assert after(LOST, 20) is LOST
    assert after(LOST, 9999, may_lose=False) is LOST


def test_a_fresh_leader_does_not_take_its_own_short_life_for_a_sign_of_the_node():
    assert after(UNREACHABLE, 1, heard=False) is UNREACHABLE
    assert after(LOST, 1, heard=False) is LOST
    assert after(CONNECTED, 1, heard=False) is CONNECTED
    assert after(CONNECTED, 16, heard=False) is UNREACHABLE
