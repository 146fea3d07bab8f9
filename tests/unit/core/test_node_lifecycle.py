from datetime import timedelta

import pytest
from msgspec.structs import replace

from llmgw.core.node_lifecycle import (
    FLAPPING_IN,
    Evidence,
    Limits,
    flaps,
    is_settling,
    judge,
    settles_at,
    shown_state,
)
from llmgw.schema.node import Intent, NodeState, Reachability, Replacement
from llmgw.testing.factories import NOW, make_node

CONNECTED, UNREACHABLE, LOST = Reachability.CONNECTED, Reachability.UNREACHABLE, Reachability.LOST
LIMITS = Limits(unreachable_after_s=15.0, lost_after_s=300.0)
LONG_AGO = NOW - timedelta(hours=2)


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


def node(reachability=CONNECTED, name="n1", **changes):
    return replace(make_node(name, reachability=reachability), reachability_since=LONG_AGO, **changes)


def judged(nodes, silence_s, *, leading_s=3600.0, now=NOW, **evidence):
    silences = silence_s if isinstance(silence_s, dict) else dict.fromkeys([one.id for one in nodes], silence_s)
    seen = {name: Evidence(silence_s=silent, **evidence) for name, silent in silences.items()}
    return judge(tuple(nodes), seen, limits=LIMITS, leading_s=leading_s, now=now)


def after(was, silence_s, **evidence):
    (found,) = judged([was if not isinstance(was, Reachability) else node(was)], silence_s, **evidence)
    return found.reachability


def test_silence_makes_a_node_unreachable_and_later_lost():
    assert after(CONNECTED, 14.9) is CONNECTED
    assert after(CONNECTED, 15) is UNREACHABLE
    assert after(UNREACHABLE, 299) is UNREACHABLE
    assert after(UNREACHABLE, 300) is LOST


def test_no_node_is_lost_in_one_step():
    assert after(CONNECTED, 9999) is UNREACHABLE


def test_a_sign_of_life_ends_unreachable_and_lost():
    assert after(UNREACHABLE, 0) is CONNECTED
    assert after(LOST, 0) is CONNECTED


def test_only_a_sign_of_life_ends_lost():
    assert after(LOST, 20) is LOST
    assert after(LOST, 9999, serves=True) is LOST


def test_a_fresh_leader_does_not_take_its_own_short_life_for_a_sign_of_the_node():
    assert after(UNREACHABLE, 1, heard=False) is UNREACHABLE
    assert after(LOST, 1, heard=False) is LOST
    assert after(CONNECTED, 1, heard=False) is CONNECTED
    assert after(CONNECTED, 16, heard=False) is UNREACHABLE


def test_a_fresh_leader_loses_nobody_in_its_first_minute():
    assert after(UNREACHABLE, 9999, leading_s=59.9) is UNREACHABLE
    assert after(UNREACHABLE, 9999, leading_s=60) is LOST


def test_a_node_whose_engines_answer_is_not_lost_and_says_so_until_they_do_not():
    (serving,) = judged([node(UNREACHABLE)], 9999, serves=True)
    assert (serving.reachability, serving.replacement) == (UNREACHABLE, Replacement.SERVING)
    assert judged([serving], 9999, serves=True) == (serving,)
    (silent,) = judged([serving], 9999)
    assert (silent.reachability, silent.replacement) == (LOST, Replacement.ALLOWED)


def test_nodes_are_lost_one_in_ten_seconds_the_longest_silent_first():
    nodes = [node(UNREACHABLE, name) for name in ("a", "b")]
    first = judged(nodes, {"a": 400, "b": 500})
    assert [one.reachability for one in first] == [UNREACHABLE, LOST]
    soon = judged(first, {"a": 409, "b": 509}, now=NOW + timedelta(seconds=9))
    assert soon == first
    later = judged(first, {"a": 410, "b": 510}, now=NOW + timedelta(seconds=10))
    assert [one.reachability for one in later] == [LOST, LOST]


def test_a_lost_node_that_comes_back_at_once_does_not_make_room_for_the_next_loss():
    first, second = node(UNREACHABLE, "n1"), node(UNREACHABLE, "n2")
    one_lost = judged([first, second], {"n1": 400, "n2": 300})
    assert [was.reachability for was in one_lost] == [LOST, UNREACHABLE]
    (back, still) = judged(one_lost, {"n1": 0, "n2": 306}, now=NOW + timedelta(seconds=6))
    assert (back.reachability, still.reachability) == (CONNECTED, UNREACHABLE)
    assert judged([back, still], {"n1": 0, "n2": 310}, now=NOW + timedelta(seconds=10))[1].reachability is LOST


def test_a_crowd_that_falls_silent_together_is_never_lost_and_others_are_not_meanwhile():
    nodes = [node(CONNECTED, f"n{number}") for number in range(8)] + [node(UNREACHABLE, "x")]
    silences = {f"n{number}": 15.0 if number < 4 else 0.0 for number in range(8)} | {"x": 299.0}
    held = judged(nodes, silences)
    assert [one.replacement is Replacement.HELD for one in held] == [True] * 4 + [False] * 5
    hours = {name: 9999.0 if silent else 0.0 for name, silent in silences.items()}
    assert judged(held, hours, now=NOW + timedelta(hours=3)) == held


def test_who_is_left_of_a_crowd_that_came_back_is_lost_a_minute_later():
    nodes = judged([node(CONNECTED, f"n{number}") for number in range(3)], 20.0)
    back = judged(nodes, {"n0": 0.0, "n1": 0.0, "n2": 400.0}, now=NOW + timedelta(minutes=7))
    assert [one.reachability for one in back] == [CONNECTED, CONNECTED, UNREACHABLE]
    seconds = [7 * 60 + 59, 8 * 60]
    states = [
        judged(back, {"n0": 0.0, "n1": 0.0, "n2": 460.0}, now=NOW + timedelta(seconds=s))[2].reachability
        for s in seconds
    ]
    assert states == [UNREACHABLE, LOST]


def test_a_released_crowd_is_lost_at_the_usual_rate():
    nodes = judged([node(CONNECTED, f"n{number}") for number in range(3)], 20.0)
    released = tuple(replace(one, replacement=Replacement.RELEASED) for one in nodes)
    after = judged(released, 400.0, now=NOW + timedelta(minutes=7))
    assert sorted(one.reachability for one in after) == [LOST, UNREACHABLE, UNREACHABLE]


def test_each_silence_within_the_hour_doubles_the_penalty_up_to_half_an_hour():
    one, now, penalties = node(CONNECTED), NOW, []
    for _ in range(8):
        (one,) = judged([one], 15.0, now=now)
        (one,) = judged([one], 0.0, now=now + timedelta(seconds=20))
        end = settles_at(one)
        assert end is not None
        penalties.append((end - now).total_seconds() - 20)
        now += timedelta(seconds=60)
    assert penalties == [30, 60, 120, 240, 480, 960, 1800, 1800]


def test_a_node_settles_until_its_penalty_is_over_and_not_while_it_is_away():
    one = node(CONNECTED, silences=(NOW - timedelta(minutes=1),))
    one = replace(one, reachability_since=NOW)
    assert is_settling(one, NOW + timedelta(seconds=29.9))
    assert not is_settling(one, NOW + timedelta(seconds=30))
    assert settles_at(replace(one, reachability=UNREACHABLE)) is None
    assert settles_at(node(CONNECTED)) is None


def test_silences_older_than_an_hour_are_forgotten_with_the_next_one():
    one = node(CONNECTED, silences=(NOW - timedelta(minutes=61), NOW - timedelta(minutes=59)))
    (silent,) = judged([one], 15.0)
    assert silent.silences == (NOW - timedelta(minutes=59), NOW)
    assert flaps(silent, NOW) == 1
    assert flaps(silent, NOW + FLAPPING_IN) == 1


def test_an_intent_survives_whatever_happens_to_the_node():
    one = node(CONNECTED, intent=Intent.CORDONED, intent_reason="disk")
    for silence in (20.0, 9999.0, 0.0):
        (one,) = judged([one], silence)
        assert (one.intent, one.intent_reason) == (Intent.CORDONED, "disk")


def test_nothing_changes_when_nothing_happened():
    nodes = (node(CONNECTED, "a"), node(LOST, "b"))
    assert judged(nodes, {"a": 3.0, "b": 9999.0}) == nodes
