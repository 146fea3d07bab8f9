from datetime import timedelta

from msgspec.structs import replace

from llmgw.core.alarms import alarms
from llmgw.schema.node import Reachability, Replacement
from llmgw.schema.summary import AlarmKind
from llmgw.testing.factories import NOW, make_node, make_snapshot


def away(name, replacement, **changes):
    return replace(make_node(name, reachability=Reachability.UNREACHABLE), replacement=replacement, **changes)


def test_a_quiet_fleet_has_none():
    nodes = [make_node("n1"), away("n2", Replacement.ALLOWED), away("n3", Replacement.RELEASED)]
    assert alarms(make_snapshot(nodes)) == ()


def test_a_crowd_is_one_alarm_whatever_groups_it_struck():
    nodes = [replace(away(f"n{n}", Replacement.HELD), facts=make_node(labels={"rack": "r1"}).facts) for n in range(4)]
    (alarm,) = alarms(make_snapshot([*nodes, make_node("n9")]))
    assert alarm.kind is AlarmKind.REPLACEMENT_HELD
    assert alarm.text.startswith("4 of 4 nodes of rack r1 fell silent together: none of them is replaced until")


def test_a_node_that_serves_unreported_and_one_that_flaps_are_named():
    silences = tuple(NOW - timedelta(minutes=minutes) for minutes in (9, 5, 1))
    nodes = [away("n2", Replacement.SERVING), replace(make_node("n1"), silences=silences)]
    found = alarms(make_snapshot(nodes))
    assert [(alarm.kind, alarm.node) for alarm in found] == [
        (AlarmKind.FLAPPING, "n1"),
        (AlarmKind.SERVES_UNREPORTED, "n2"),
    ]
    assert alarms(make_snapshot(nodes, now=NOW + timedelta(minutes=2)))[0].node == "n2"


def test_what_is_wrong_with_a_node_itself_is_named():
    node = make_node("n1")
    full = replace(node, facts=replace(node.facts, problems=("the disk of the agent's data_dir /x is full",)))
    (alarm,) = alarms(make_snapshot([full, make_node("n2")]))
    assert (alarm.kind, alarm.node) == (AlarmKind.DISK_FULL, "n1")
    assert alarm.text == "node n1: the disk of the agent's data_dir /x is full"
