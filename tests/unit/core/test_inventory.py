import msgspec

from llmgw.core.inventory import Held, free, held, owned, schedulable
from llmgw.schema.replica import ReplicaState
from llmgw.testing.factories import GIB, make_allocation, make_devices, make_node, make_replica

DEVICE = "GPU-h100-80gb-{}".format


def two_replicas():
    return [
        make_replica("ra", allocations=[make_allocation("n1", cores=1.5, memory_bytes=GIB, devices=[DEVICE(0)])]),
        make_replica(
            "rb",
            state=ReplicaState.DRAINING,
            allocations=[
                make_allocation("n1", cores=0.5, memory_bytes=2 * GIB, devices=[DEVICE(1)]),
                make_allocation("n2", cores=4),
            ],
        ),
    ]


def test_shards_hold_what_they_have_until_their_row_is_gone():
    assert held("n1", two_replicas()) == Held(
        cores=2.0, memory_bytes=3 * GIB, devices=frozenset([DEVICE(0), DEVICE(1)])
    )
    assert held("n3", two_replicas()) == Held()


def test_what_is_left_has_no_held_and_no_unhealthy_device():
    devices = list(make_devices(4))
    devices[3] = msgspec.structs.replace(devices[3], problem="XID 79")
    left = free(make_node("n1", cores=8, memory_bytes=4 * GIB, devices=tuple(devices)), two_replicas())
    assert (left.cores, left.memory_bytes) == (6.0, GIB)
    assert [device.id for device in left.devices] == [DEVICE(2)]


def test_unknown_stays_unknown_and_less_than_nothing_is_nothing():
    left = free(make_node("n1", cores=None, memory_bytes=None), two_replicas())
    assert (left.cores, left.memory_bytes) == (None, None)
    shrunk = free(make_node("n1", cores=1, memory_bytes=GIB), two_replicas())
    assert (shrunk.cores, shrunk.memory_bytes) == (0.0, 0)


def pooled(*problems):
    """Two compute instances of one GPU instance, and a card beside them."""
    first, second, card = make_devices(3)
    return (
        msgspec.structs.replace(first, pool="gi-1", problem=problems[0]),
        msgspec.structs.replace(second, pool="gi-1", problem=problems[1]),
        card,
    )


def test_of_devices_that_share_one_memory_one_is_counted():
    assert [device.id for device in schedulable(pooled(None, None))] == [DEVICE(0), DEVICE(2)]
    assert schedulable(make_devices(3)) == make_devices(3)


def test_trouble_of_one_that_shares_memory_is_trouble_of_all():
    devices = schedulable(pooled(None, "in use by pid 7 (python), not ours"))
    assert [device.problem for device in devices] == ["in use by pid 7 (python), not ours", None]
    assert [device.problem for device in schedulable(pooled("ECC", "XID 79"))] == ["ECC", None]


def test_who_holds_a_part_of_a_memory_holds_all_of_it():
    devices = pooled(None, None)
    assert owned(devices, {DEVICE(1)}) == {DEVICE(0)}
    assert owned(devices, {DEVICE(2), "gone"}) == {DEVICE(2)}
    replica = make_replica(allocations=[make_allocation("n1", devices=[DEVICE(1)])])
    assert [device.id for device in free(make_node("n1", devices=devices), [replica]).devices] == [DEVICE(2)]
