from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from llmgw.ports import AppendEvent, PutNode
from llmgw.schema.node import Intent, Node, Reachability
from llmgw.schema.weights import Storage
from llmgw.server.live import Live
from llmgw.server.registration import Silence, facts_differ, registrations
from llmgw.testing.fake_node import fake_facts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AT = 1000.0
SILENCE = Silence(unreachable_after_s=15.0, lost_after_s=300.0, leading_since=AT - 500)
DISK = Storage(mount="/", source="/dev/vda", fstype="ext4", total_bytes=6400, free_bytes=3000)


def live(name="n1", *, heard_s=0.0, connected=True, facts=None):
    return Live(
        node=name,
        stream=1,
        facts=facts or fake_facts(name),
        reports=(),
        generation=0,
        connected=connected,
        heard_at=AT - heard_s,
    )


def node(name="n1", **changes):
    return replace(Node(id=name, facts=fake_facts(name), registered_at=NOW - timedelta(days=1)), **changes)


def decide(nodes, lives, silence=SILENCE, **more):
    writes = registrations(tuple(nodes), tuple(lives), silence=silence, now=NOW, hearing=AT, **more)
    rows = [write.node for write in writes if isinstance(write, PutNode)]
    return rows, [write.event.kind for write in writes if isinstance(write, AppendEvent)]


def test_an_agent_not_known_yet_becomes_a_node():
    (row,), events = decide([], [live()])
    assert (row.id, row.registered_at, row.reachability) == ("n1", NOW, Reachability.CONNECTED)
    assert events == ["node.registered"]


def test_an_agent_that_left_before_it_was_stored_does_not_become_a_node():
    assert decide([], [live(connected=False)]) == ([], [])


def test_nothing_is_written_of_a_node_that_is_as_stored():
    assert decide([node()], [live()]) == ([], [])


def test_changed_facts_are_stored_and_intent_and_generation_stay():
    known = node(intent=Intent.CORDONED, intent_reason="disk", generation=7)
    facts = replace(fake_facts("n1"), agent_version="2")
    (row,), _ = decide([known], [live(facts=facts)])
    assert row == replace(known, facts=facts)


def test_a_node_that_comes_back_is_connected_and_what_its_operator_wanted():
    known = node(intent=Intent.DRAINING, reachability=Reachability.LOST)
    (row,), events = decide([known], [live()])
    assert (row.reachability, row.reachability_since, row.intent) == (Reachability.CONNECTED, NOW, Intent.DRAINING)
    assert events == ["node.connected"]


@pytest.mark.parametrize(
    ("was", "silent_s", "state", "event"),
    [
        (Reachability.CONNECTED, 14.0, Reachability.CONNECTED, None),
        (Reachability.CONNECTED, 15.0, Reachability.UNREACHABLE, "node.unreachable"),
        (Reachability.UNREACHABLE, 301.0, Reachability.LOST, "node.lost"),
    ],
)
def test_silence_makes_a_node_unreachable_and_later_lost(was, silent_s, state, event):
    rows, events = decide([node(reachability=was)], [live(heard_s=silent_s, connected=False)])
    assert [row.reachability for row in rows] == ([] if event is None else [state])
    assert events == ([] if event is None else [event])


def test_a_new_leader_counts_silence_from_its_own_start_and_loses_nobody_in_its_first_minute():
    fresh = replace(SILENCE, leading_since=AT - 14, lost_after_s=20.0)
    assert decide([node()], [], fresh) == ([], [])
    grace = replace(SILENCE, leading_since=AT - 59, lost_after_s=20.0)
    (row,), _ = decide([node()], [], grace)
    assert row.reachability is Reachability.UNREACHABLE
    assert decide([row], [], grace) == ([], [])
    (row,), _ = decide([row], [], replace(grace, leading_since=AT - 60))
    assert row.reachability is Reachability.LOST


def test_a_crowd_is_told_once_and_its_end_is_told():
    away = [live(f"n{number}", heard_s=20.0, connected=False) for number in range(4)]
    rows, events = decide([node(f"n{number}") for number in range(6)], [*away, live("n4"), live("n5")])
    assert events == ["node.unreachable"] * 4 + ["fleet.replacement_held"]
    rows = [*rows, node("n4"), node("n5")]
    assert decide(rows, [*away, live("n4"), live("n5")]) == ([], [])
    _, events = decide(rows, [live(f"n{number}") for number in range(6)])
    assert events == ["node.connected"] * 4 + ["fleet.replacement_resumed"]


def test_a_node_that_serves_but_does_not_report_is_told_once():
    known = node(reachability=Reachability.UNREACHABLE)
    (row,), events = decide([known], [live(heard_s=301.0)], answering=frozenset({"n1"}))
    assert (row.reachability, events) == (Reachability.UNREACHABLE, ["node.serves_unreported"])
    assert decide([row], [live(heard_s=302.0)], answering=frozenset({"n1"})) == ([], [])


def test_the_third_silence_within_ten_minutes_is_an_alarm():
    known = node(silences=(NOW - timedelta(minutes=9), NOW - timedelta(minutes=5)))
    (row,), events = decide([known], [live(heard_s=20.0)])
    assert events == ["node.unreachable", "node.flapping"]
    assert len(row.silences) == 3


def test_a_new_leader_takes_no_unheard_node_for_connected():
    fresh = replace(SILENCE, leading_since=AT - 1)
    assert decide([node(reachability=Reachability.UNREACHABLE)], [], fresh) == ([], [])


@pytest.mark.parametrize(
    ("free", "differs"), [(3000, False), (2950, False), (2901, False), (2900, True), (3100, True), (None, True)]
)
def test_free_disk_is_stored_anew_only_when_it_moved_by_a_64th_of_the_disk(free, differs):
    stored = replace(fake_facts("n1"), storage=(DISK,))
    said = replace(stored, storage=(replace(DISK, free_bytes=free),))
    assert facts_differ(stored, said) is differs


def test_another_set_of_disks_is_always_another_fact():
    stored = replace(fake_facts("n1"), storage=(DISK,))
    assert facts_differ(stored, replace(stored, storage=()))
    assert facts_differ(stored, replace(stored, storage=None))
