"""Safety of losing nodes over random histories: each test's name is the promise."""

from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from llmgw.core.mass_protection import groups_of, protected
from llmgw.core.node_lifecycle import Evidence, Limits, judge
from llmgw.schema.node import Intent, Node, Reachability, Replacement
from llmgw.testing.factories import NOW, make_node

LIMITS = Limits(unreachable_after_s=15.0, lost_after_s=120.0)
LONG_AGO = NOW - timedelta(days=1)
Seen = tuple[Node, Node, Evidence, float]


@st.composite
def histories(draw: st.DrawFn) -> list[list[Seen]]:
    """Play a fleet whose nodes fall silent and come back: before, after, evidence and seconds led, step by step."""
    nodes = tuple(
        replace(
            make_node(f"n{number:02}", labels={"rack": f"r{number % 3}"}, intent=draw(st.sampled_from(Intent))),
            reachability_since=LONG_AGO,
            intent_reason="kept",
        )
        for number in range(draw(st.integers(1, 12)))
    )
    silent = dict.fromkeys((node.id for node in nodes), 0.0)
    steps, now, leading_s = [], NOW, draw(st.sampled_from([0.0, 3600.0]))
    for _ in range(draw(st.integers(1, 25))):
        pause = draw(st.sampled_from([1.0, 5.0, 15.0, 60.0, 130.0]))
        now, leading_s = now + timedelta(seconds=pause), leading_s + pause
        heard = draw(st.sets(st.sampled_from(sorted(silent)))) if draw(st.booleans()) else set(silent)
        silent = {name: 0.0 if name in heard else seconds + pause for name, seconds in silent.items()}
        serving = draw(st.sets(st.sampled_from(sorted(silent)), max_size=2))
        evidence = {name: Evidence(silence_s=seconds, serves=name in serving) for name, seconds in silent.items()}
        after = judge(nodes, evidence, limits=LIMITS, leading_s=leading_s, now=now)
        if draw(st.integers(0, 9)) == 0:
            after = tuple(_released(node) for node in after)
        steps.append([(was, is_, evidence[was.id], leading_s) for was, is_ in zip(nodes, after, strict=True)])
        nodes = after
    return steps


def _released(node: Node) -> Node:
    return replace(node, replacement=Replacement.RELEASED) if node.replacement is Replacement.HELD else node


def losses(step: list[Seen]) -> list[Seen]:
    return [seen for seen in step if seen[1].reachability is Reachability.LOST is not seen[0].reachability]


@given(histories())
def test_an_intent_is_nobodys_but_the_operators(history: list[list[Seen]]) -> None:
    for was, is_, _, _ in (seen for step in history for seen in step):
        assert (was.intent, was.intent_reason) == (is_.intent, is_.intent_reason)


@given(histories())
def test_a_node_is_lost_only_after_its_time_its_silence_and_the_leaders_grace(history: list[list[Seen]]) -> None:
    for was, _, evidence, leading_s in (seen for step in history for seen in losses(step)):
        assert was.reachability is Reachability.UNREACHABLE
        assert evidence.silence_s >= LIMITS.lost_after_s
        assert leading_s >= LIMITS.grace_s
        assert not evidence.serves


@given(histories())
def test_mass_protection_replaces_nobody(history: list[list[Seen]]) -> None:
    for step in history:
        groups = {crowd.group for crowd in protected(seen[0] for seen in step)}
        for was, is_, _, _ in losses(step):
            assert was.replacement is not Replacement.HELD
            still = groups & {crowd.group for crowd in protected(seen[1] for seen in step)}
            assert was.replacement is Replacement.RELEASED or still.isdisjoint(groups_of(is_))


@given(histories())
def test_nodes_are_lost_one_at_a_time_and_ten_seconds_apart(history: list[list[Seen]]) -> None:
    moments = []
    for step in history:
        assert len(losses(step)) <= 1
        moments.extend(seen[1].reachability_since for seen in losses(step))
    assert all((later - earlier).total_seconds() >= 10 for earlier, later in pairwise(moments))


@given(histories())
def test_a_third_of_a_fleet_that_falls_silent_together_is_held(history: list[list[Seen]]) -> None:
    for step in history:
        there = [seen for seen in step if seen[0].reachability is Reachability.CONNECTED]
        fell = [seen for seen in there if seen[1].reachability is Reachability.UNREACHABLE]
        if len(fell) >= 3 and 3 * len(fell) >= len(step):
            assert all(seen[1].replacement in {Replacement.HELD, Replacement.RELEASED} for seen in fell)


@given(histories())
def test_a_sign_of_life_is_all_that_a_node_needs_to_be_back(history: list[list[Seen]]) -> None:
    for _, is_, evidence, _ in (seen for step in history for seen in step):
        if evidence.silence_s == 0:
            assert (is_.reachability, is_.replacement) == (Reachability.CONNECTED, Replacement.ALLOWED)
