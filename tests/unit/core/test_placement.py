import msgspec

from llmgw.core.feasible import Rooms
from llmgw.core.fit import need_of
from llmgw.core.placement import place
from llmgw.core.rank import Beside
from llmgw.schema.model import Profile
from llmgw.schema.plan import Claim
from llmgw.testing.factories import (
    GIB,
    make_allocation,
    make_devices,
    make_model,
    make_node,
    make_replica,
    make_seen,
    make_want,
)

H100 = "h100-80gb"
ALONE = Beside({}, {})


def rooms(*nodes, held=()):
    return Rooms([make_seen(node) for node in nodes], held)


def need(devices=0, nodes=1, device_class=H100, **claim):
    profile = Profile(nodes=nodes, devices_per_node=devices, device_class=device_class if devices else None)
    claimed = Claim(devices=devices, device_class=profile.device_class, **claim)
    return need_of(make_want(make_model(profile=profile), claim=claimed))


def beside(replicas, failures=()):
    return Beside(replicas, dict(failures))


def where(allocations):
    return None if allocations is None else [allocation.node for allocation in allocations]


def taken(node, *devices):
    return make_replica(f"r{node}", allocations=[make_allocation(node, devices=[f"GPU-{H100}-{d}" for d in devices])])


def test_a_partly_used_node_is_filled_before_a_whole_one_is_broken():
    fleet = rooms(
        make_node("a", devices=make_devices(8)), make_node("b", devices=make_devices(8)), held=[taken("b", 0)]
    )
    assert where(place(fleet, need(1), ALONE)) == ["b"]


def test_a_small_whole_node_is_not_broken_for_a_tighter_fit():
    fleet = rooms(
        make_node("a", devices=make_devices(4)), make_node("b", devices=make_devices(8)), held=[taken("b", 0)]
    )
    assert where(place(fleet, need(1), ALONE)) == ["b"]


def test_the_tightest_fit_is_taken():
    fleet = rooms(make_node("a", devices=make_devices(8)), make_node("b", devices=make_devices(2)))
    assert where(place(fleet, need(2), ALONE)) == ["b"]
    assert where(place(fleet, need(4), ALONE)) == ["a"]


def test_a_model_without_devices_keeps_off_nodes_with_them():
    fleet = rooms(make_node("a", devices=make_devices(8), memory_bytes=512 * GIB), make_node("b"))
    assert where(place(fleet, need(memory_bytes=GIB), ALONE)) == ["b"]


def test_a_node_where_it_failed_of_late_is_taken_after_its_equals():
    fleet = rooms(make_node("a"), make_node("b"), make_node("c"))
    assert where(place(fleet, need(), beside({}, {"a": 1}))) == ["b"]
    assert where(place(fleet, need(), beside({}, {"a": 1, "b": 2, "c": 3}))) == ["a"]
    assert where(place(fleet, need(), beside({"c": 1}, {"a": 2, "b": 1}))) == ["b"]


def test_a_failure_weighs_less_than_headroom_and_more_than_a_few_pages_of_memory():
    fleet = rooms(make_node("a", memory_bytes=33 * GIB), make_node("b", memory_bytes=32 * GIB))
    assert where(place(fleet, need(), beside({}, {"a": 1}))) == ["a"]
    fleet = rooms(make_node("a", memory_bytes=32 * GIB - 4096), make_node("b", memory_bytes=32 * GIB - 4096 * 8))
    assert where(place(fleet, need(), beside({}, {"a": 1}))) == ["b"]
    fleet = rooms(make_node("a", cores=64), make_node("b", cores=32))
    assert where(place(fleet, need(), beside({}, {"a": 9}))) == ["a"]


def test_a_node_where_it_failed_is_taken_when_there_is_no_other():
    assert where(place(rooms(make_node("a")), need(), beside({}, {"a": 5}))) == ["a"]


def test_replicas_of_one_model_are_spread():
    fleet = rooms(make_node("a", memory_bytes=64 * GIB), make_node("b"), make_node("c"))
    assert where(place(fleet, need(), ALONE)) == ["a"]
    assert where(place(fleet, need(), beside({"a": 1}))) == ["b"]
    assert where(place(fleet, need(), beside({"a": 1, "b": 1, "c": 2}))) == ["a"]


def test_weights_that_were_seen_come_before_weights_that_are_assumed():
    fleet = rooms(make_node("a", weights=None, memory_bytes=64 * GIB), make_node("b"))
    assert where(place(fleet, need(), ALONE)) == ["b"]


def test_unknown_room_is_not_taken_for_much_room():
    fleet = rooms(make_node("a", cores=None, memory_bytes=None), make_node("b"))
    assert where(place(fleet, need(cores=1), ALONE)) == ["b"]


def test_devices_come_from_one_numa_node_where_one_suffices():
    fleet = rooms(make_node("a", devices=make_devices(8, numa_nodes=2)), held=[taken("a", 0, 1)])
    (allocation,) = place(fleet, need(2), ALONE)
    assert allocation.devices == (f"GPU-{H100}-2", f"GPU-{H100}-3")
    (allocation,) = place(fleet, need(4), ALONE)
    assert allocation.devices == tuple(f"GPU-{H100}-{d}" for d in (4, 5, 6, 7))
    (allocation,) = place(fleet, need(6), ALONE)
    assert len(set(allocation.devices)) == 6


def test_a_replica_is_placed_whole_or_not_at_all():
    fleet = rooms(
        make_node("a", devices=make_devices(8), fabrics=["ib-a"]),
        make_node("b", devices=make_devices(8), fabrics=["ib-b"]),
        make_node("c", devices=make_devices(8)),
    )
    assert place(fleet, need(8, nodes=2), ALONE) is None
    assert where(place(fleet, need(8), ALONE)) is not None


def test_the_tightest_fabric_is_taken_and_named():
    nodes = [make_node(f"a{n}", devices=make_devices(8), fabrics=["ib-a"]) for n in range(3)]
    nodes += [make_node(f"b{n}", devices=make_devices(8), fabrics=["ib-b"]) for n in range(2)]
    allocations = place(rooms(*nodes), need(8, nodes=2), ALONE)
    assert where(allocations) == ["b0", "b1"]
    assert {allocation.fabric for allocation in allocations} == {"ib-b"}


def test_shards_are_in_the_order_of_their_nodes_ids():
    fleet = rooms(
        make_node("a", devices=make_devices(8), fabrics=["ib"]),
        make_node("b", devices=make_devices(8), fabrics=["ib"], memory_bytes=512 * GIB),
    )
    assert where(place(fleet, need(8, nodes=2), ALONE)) == ["a", "b"]


def test_all_nodes_of_a_replica_have_devices_of_one_class():
    fleet = rooms(
        make_node("a", devices=make_devices(2), fabrics=["ib"]),
        make_node("b", devices=make_devices(2, "l40s-48gb"), fabrics=["ib"]),
        make_node("c", devices=make_devices(2, "l40s-48gb"), fabrics=["ib"]),
    )
    assert where(place(fleet, need(2, nodes=2, device_class=None), ALONE)) == ["b", "c"]


def test_what_is_claimed_is_gone_and_what_is_released_is_back():
    fleet = rooms(make_node("a", devices=make_devices(2), memory_bytes=10 * GIB))
    asked = need(2, memory_bytes=10 * GIB)
    (allocation,) = place(fleet, asked, ALONE)
    fleet.claim(allocation)
    assert place(fleet, asked, ALONE) is None
    fleet.release(allocation)
    assert place(fleet, asked, ALONE) == (allocation,)


def test_an_unhealthy_device_is_not_freed_by_a_release():
    broken = tuple(msgspec.structs.replace(device, problem="ECC") for device in make_devices(1))
    fleet = rooms(make_node("a", devices=broken))
    fleet.release(make_allocation("a", devices=[broken[0].id]))
    fleet.release(make_allocation("gone"))
    assert place(fleet, need(1), ALONE) is None
