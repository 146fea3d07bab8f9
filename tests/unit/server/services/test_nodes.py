import pytest
from msgspec.structs import replace

from llmgw.schema.device import Device
from llmgw.schema.errors import NotFound
from llmgw.schema.report import Load, ShardLoad
from llmgw.server.services import nodes
from llmgw.testing.control_room import GIB

LOAD = Load(age_s=1.0, cpu_percent=37.5, memory_used_bytes=4 * GIB)


async def test_a_node_shows_what_is_held_and_what_is_left(room):
    await room.put_node(devices=(Device(id="g0", index=0, device_class="h100"),))
    await room.put_replica("r1", "m")
    row = nodes.one_node(room.fleet, room.clock, "n1")
    assert (row.held.cores, row.held.memory_bytes, row.held.devices) == (2.0, GIB, ())
    assert row.free.cores == 6.0
    assert row.free.devices == ("g0",)
    assert row.replicas == ("r1",)


async def test_a_node_whose_memory_is_unknown_has_unknown_room_not_none(room):
    await room.put_node(memory_bytes=None)
    assert nodes.one_node(room.fleet, room.clock, "n1").free.memory_bytes is None


async def test_a_load_grows_older_and_is_left_out_after_a_minute(room):
    room.hear(await room.put_node(), load=LOAD)
    room.clock.advance(10)
    load = nodes.one_node(room.fleet, room.clock, "n1").load
    assert load is not None
    assert (load.age_s, load.cpu_percent) == (11.0, 37.5)
    room.clock.advance(50)
    assert nodes.one_node(room.fleet, room.clock, "n1").load is None


async def test_what_each_engine_uses_is_told_with_its_model_and_replica(room):
    used = ShardLoad(shard="r1.0", cpu_cores=1.5, memory_bytes=GIB)
    room.hear(await room.put_node(), load=replace(LOAD, shards=(used, ShardLoad(shard="gone.0", cpu_cores=9.0))))
    await room.put_replica("r1", "m")
    await room.put_replica("r2", "a")
    shards = nodes.one_node(room.fleet, room.clock, "n1").shards
    assert [(one.shard, one.replica, one.model, one.load) for one in shards] == [
        ("r2.0", "r2", "a", None),
        ("r1.0", "r1", "m", used),
    ]
    room.clock.advance(61)
    assert [one.load for one in nodes.one_node(room.fleet, room.clock, "n1").shards] == [None, None]


async def test_what_a_node_has_stays_when_its_load_is_stale(room):
    room.hear(await room.put_node(), load=LOAD)
    room.clock.advance(61)
    row = nodes.one_node(room.fleet, room.clock, "n1")
    assert (row.load, row.facts.host.cores_usable, row.facts.memory_bytes) == (None, 8.0, 16 * GIB)


async def test_a_node_never_heard_is_not_connected(room):
    await room.put_node()
    row = nodes.one_node(room.fleet, room.clock, "n1")
    assert (row.connected, row.load) == (False, None)


async def test_an_unknown_node_is_not_found(room):
    with pytest.raises(NotFound):
        nodes.one_node(room.fleet, room.clock, "n9")
