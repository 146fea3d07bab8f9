import pytest
from msgspec.structs import replace

from llmgw.core.hand_over import (
    BARRED_S,
    BLIND_S,
    LONGEST_S,
    HandOver,
    Keep,
    Sight,
    barred_s,
    blind,
    decide,
    patience_s,
)
from llmgw.schema.hand_over import StandbyWord

NODES = frozenset(f"n{number}" for number in range(20))


def some(count):
    return frozenset(sorted(NODES)[:count])


def word(name="two", nodes=NODES, *, may_lead=True):
    return StandbyWord(name=name, nodes=nodes, may_lead=may_lead)


def sight(**changes):
    """A leader that has been without any agent for long enough, while all of them ask a standby."""
    cut_off = Sight(known=NODES, connected=frozenset(), leading_s=600.0, blind_s=BLIND_S, words=(word(),))
    return replace(cut_off, **changes)


def test_the_lead_goes_to_the_standby_that_all_agents_ask():
    assert decide(sight()) == HandOver(to="two", nodes=NODES, wait=())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"connected": some(3)}, Keep.HAS_ENOUGH),
        ({"known": frozenset()}, Keep.HAS_ENOUGH),
        ({"leading_s": 29.0}, Keep.JUST_BEGAN),
        ({"blind_s": 9.0}, Keep.NOT_FOR_LONG),
        ({"blind_s": 19.0, "handed": 1}, Keep.NOT_FOR_LONG),
        ({"words": ()}, Keep.NOBODY_STANDS_BY),
        ({"words": (word(may_lead=False),)}, Keep.NOBODY_MAY),
        ({"words": (word(nodes=frozenset()),)}, Keep.NOBODY_BETTER),
        ({"words": (word(nodes=frozenset({"stranger"})),)}, Keep.NOBODY_BETTER),
    ],
)
def test_a_leader_keeps_the_lead_and_says_why(changes, why):
    assert decide(sight(**changes)) is why


def test_one_that_kept_some_agents_needs_nine_times_as_many_elsewhere():
    two_left = sight(connected=some(2))
    assert decide(replace(two_left, words=(word(nodes=some(19)),))) is Keep.NOBODY_BETTER
    assert decide(replace(two_left, words=(word(nodes=some(20)),))) == HandOver(
        to="two", nodes=NODES - some(2), wait=()
    )


def test_agents_that_asked_elsewhere_and_came_back_speak_for_nobody():
    everybody_came = sight(known=NODES, connected=some(2), words=(word(nodes=some(2)),))
    assert decide(everybody_came) is Keep.NOBODY_BETTER


def test_of_several_the_one_asked_by_most_is_chosen_and_those_no_better_are_to_wait():
    words = (
        word("two", some(12)),
        word("three", some(15)),
        word("four", frozenset()),
        word("five", NODES, may_lead=False),
    )
    assert decide(sight(words=words)) == HandOver(to="three", nodes=some(15), wait=("five", "four"))


def test_equal_ones_are_told_apart_by_name_and_need_not_wait():
    assert decide(sight(words=(word("b"), word("a")))) == HandOver(to="a", nodes=NODES, wait=())


def test_a_single_node_that_asks_elsewhere_is_enough_where_there_is_nobody_else():
    assert isinstance(decide(sight(known=some(1), words=(word(nodes=some(1)),))), HandOver)


def test_blindness_is_a_tenth_of_the_nodes_or_less():
    assert blind(NODES, some(2))
    assert not blind(NODES, some(3))
    assert not blind(frozenset(), frozenset())
    assert blind(NODES, frozenset({"stranger"}))


def test_each_hand_over_doubles_the_patience_and_the_time_in_which_the_lead_is_not_given_back():
    assert [patience_s(count) for count in range(3)] == [BLIND_S, 2 * BLIND_S, 4 * BLIND_S]
    assert [barred_s(count) for count in range(4)] == [0.0, BARRED_S, 2 * BARRED_S, 4 * BARRED_S]
    assert patience_s(50) == barred_s(50) == LONGEST_S
