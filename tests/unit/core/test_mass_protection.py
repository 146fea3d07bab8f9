from datetime import timedelta

from msgspec.structs import replace

from llmgw.core.mass_protection import FLEET, Group, away_together, crowds, groups_of, hold, protected, released
from llmgw.schema.node import Reachability, Replacement
from llmgw.testing.factories import NOW, make_node


def fleet(total, silent, *, racks=1, ago_s=0.0):
    """Make nodes of which the first `silent` fell silent `ago_s` seconds ago, spread over racks in blocks."""
    made = []
    for number in range(total):
        node = make_node(f"n{number:03d}", labels={"rack": f"r{number * racks // total}"})
        if number < silent:
            since = NOW - timedelta(seconds=ago_s)
            node = replace(node, reachability=Reachability.UNREACHABLE, reachability_since=since)
        made.append(node)
    return tuple(made)


def held(nodes):
    return [node.id for node in nodes if node.replacement is Replacement.HELD]


def test_groups_are_racks_sites_fabrics_and_the_fleet():
    node = make_node(labels={"rack": "r1", "site": "north", "zone": "a"}, fabrics=["ib-a"])
    assert [str(group) for group in groups_of(node)] == ["the fleet", "rack r1", "site north", "fabric ib-a"]


def test_three_of_nine_are_a_crowd_and_two_of_six_or_three_of_ten_are_not():
    assert [crowd.silent for crowd in crowds(fleet(9, 3), NOW)] == [3, 3]
    assert crowds(fleet(6, 2), NOW) == ()
    assert crowds(fleet(10, 3), NOW) == ()


def test_a_rack_is_a_crowd_where_the_fleet_is_none():
    (crowd,) = crowds(fleet(40, 3, racks=8), NOW)
    assert (crowd.group, crowd.silent, crowd.total) == (Group("rack", "r0"), 3, 5)
    assert len(held(hold(fleet(40, 3, racks=8), NOW))) == 3


def test_nodes_that_fell_silent_over_more_than_a_minute_are_no_crowd():
    nodes = (*fleet(2, 2, ago_s=61), *fleet(6, 1)[:1], *fleet(6, 1)[1:])
    assert held(hold(nodes, NOW)) == []


def test_who_was_away_before_counts_neither_way():
    away = tuple(replace(node, id=f"old-{node.id}") for node in fleet(50, 50, ago_s=3600))
    assert len(held(hold((*away, *fleet(9, 3)), NOW))) == 3


def test_held_nodes_stay_held_while_three_are_away_however_long():
    nodes = hold(fleet(9, 3), NOW)
    assert held(hold(nodes, NOW + timedelta(days=3))) == held(nodes)
    assert [str(crowd.group) for crowd in protected(nodes)] == ["the fleet", "rack r0"]


def test_a_rack_that_is_away_protects_itself_and_not_the_fleet():
    nodes = hold(fleet(40, 3, racks=8), NOW)
    assert [str(crowd.group) for crowd in protected(nodes)] == ["rack r0"]
    assert away_together(nodes) == (Group("rack", "r0"), 3, 5)


def test_what_is_left_of_a_large_crowd_stays_held_while_others_may_be_lost():
    nodes = hold(fleet(30, 15), NOW)
    back = tuple(
        replace(one, reachability=Reachability.CONNECTED, replacement=Replacement.ALLOWED) for one in nodes[:11]
    )
    after = hold((*back, *nodes[11:]), NOW)
    assert len(held(after)) == 4
    assert protected(after) == ()
    assert away_together(after) == (FLEET, 4, 30)


def test_nobody_is_away_together_when_none_is_held():
    assert away_together(fleet(9, 3)) is None


def test_a_crowd_is_back_once_fewer_than_three_are_away():
    nodes = hold(fleet(9, 3), NOW)
    back = (replace(nodes[0], reachability=Reachability.CONNECTED, replacement=Replacement.ALLOWED), *nodes[1:])
    later = NOW + timedelta(minutes=5)
    after = hold(back, later)
    assert held(after) == []
    assert protected(after) == ()
    assert after[1].replacement_since == later


def test_a_released_crowd_is_not_held_again():
    nodes = tuple(released(node, NOW) for node in hold(fleet(9, 3), NOW))
    assert protected(nodes) == ()
    assert held(hold(nodes, NOW)) == []


def test_holding_again_changes_nothing():
    nodes = hold(fleet(200, 100, racks=20), NOW)
    assert hold(nodes, NOW) == nodes
    assert len(held(nodes)) == 100
