import pytest
from msgspec.structs import replace

from llmgw.ports import PutNode
from llmgw.schema.plan import Allocation
from llmgw.schema.report import Load, Pressure, ShardLoad
from llmgw.server.node_metrics import node_samples
from llmgw.telemetry.metrics import TABLE
from llmgw.testing.control_room import GIB, ControlRoom
from llmgw.testing.factories import make_devices

USED = ShardLoad(shard="r1.0", cpu_cores=1.5, memory_bytes=3 * GIB, memory_anonymous_bytes=GIB)
LOAD = Load(
    age_s=1.0,
    cpu_percent=37.5,
    load1=1.0,
    load5=2.0,
    load15=3.0,
    memory_used_bytes=4 * GIB,
    memory_available_bytes=12 * GIB,
    pressure=Pressure(cpu_percent=0.5, io_percent=7.0),
    data_dir_free_bytes=5 * GIB,
    shards=(USED, ShardLoad(shard="unknown.0", cpu_cores=9.0)),
)
MEASURED = {
    "llmgw_node_cpu_utilization_percent",
    "llmgw_node_load",
    "llmgw_node_load_age_seconds",
    "llmgw_node_memory_used_bytes",
    "llmgw_node_memory_available_bytes",
    "llmgw_node_data_dir_free_bytes",
    "llmgw_node_pressure_percent",
    "llmgw_shard_cpu_cores",
    "llmgw_shard_memory_bytes",
    "llmgw_shard_memory_anonymous_bytes",
}


@pytest.fixture
async def room():
    room = ControlRoom()
    await room.open()
    return room


def values(room):
    return {(one.name, *(value for _, value in one.labels)): one.value for one in node_samples(room.fleet)}


async def test_what_an_engine_uses_is_labelled_with_node_model_replica_and_shard(room):
    room.hear(await room.put_node(), load=LOAD)
    await room.put_replica("r1", "m")
    found = {one.name: one for one in node_samples(room.fleet) if one.name.startswith("llmgw_shard_")}
    labels = (("node", "n1"), ("model", "m"), ("replica", "r1"), ("shard", "r1.0"))
    assert {one.labels for one in found.values()} == {labels}, "an engine nobody placed is not counted"
    assert found["llmgw_shard_cpu_cores"].value == 1.5
    assert found["llmgw_shard_memory_bytes"].value == 3 * GIB
    assert found["llmgw_shard_memory_anonymous_bytes"].value == GIB


async def test_every_metric_of_nodes_and_engines_in_the_table_is_told_when_it_is_known(room):
    everything = replace(LOAD, pressure=Pressure(cpu_percent=0.5, memory_percent=1.0, io_percent=7.0))
    node = await room.put_node(devices=make_devices(1))
    troubled = replace(node, silences=(room.clock.now(),), facts=replace(node.facts, problems=("its disk is full",)))
    await room.fleet.write([PutNode(node=troubled)])
    room.hear(troubled, load=everything)
    await room.put_replica("r1", "m")
    table = {metric.name: set(metric.labels) for metric in TABLE}
    told = {one.name: {label for label, _ in one.labels} for one in node_samples(room.fleet)}
    assert told == {name: table[name] for name in told}
    wanted = {name for name in table if name.startswith(("llmgw_node", "llmgw_shard_"))}
    assert wanted <= told.keys()


async def test_an_engine_said_to_be_on_another_node_than_its_own_is_not_counted(room):
    await room.put_node("n1")
    room.hear(await room.put_node("n2"), load=LOAD)
    await room.put_replica("r1", "m", node="n1")
    assert not [one for one in values(room) if one[0].startswith("llmgw_shard_")]


async def test_unknown_parts_are_absent(room):
    room.hear(await room.put_node(), load=LOAD)
    found = values(room)
    assert found["llmgw_node_pressure_percent", "n1", "io"] == 7.0
    assert ("llmgw_node_pressure_percent", "n1", "memory") not in found


async def test_after_a_minute_what_was_measured_is_absent_and_what_the_node_has_stays(room):
    room.hear(await room.put_node(devices=make_devices(1)), load=LOAD)
    await room.put_replica("r1", "m")
    assert {name for name, *_ in values(room)} >= MEASURED
    room.clock.advance(59.5)
    found = values(room)
    assert not {name for name, *_ in found} & MEASURED
    assert found["llmgw_node_cpus", "n1"] == 8.0
    assert found["llmgw_node_memory_bytes", "n1"] == 16 * GIB
    assert found["llmgw_node_devices", "n1", "h100-80gb", "free"] == 1.0
    assert found["llmgw_nodes", "ready"] == 1.0


async def test_devices_are_free_used_or_unhealthy(room):
    used, free, broken = make_devices(3)
    await room.put_node(devices=(used, free, replace(broken, problem="XID 79")))
    replica = await room.put_replica("r1", "m")
    held = replace(replica.shards[0], allocation=Allocation(node="n1", devices=(used.id,)))
    await room.put_replica("r1", "m", shards=(held,))
    found = values(room)
    states = {state: found["llmgw_node_devices", "n1", "h100-80gb", state] for state in ("free", "used", "unhealthy")}
    assert states == {"free": 1.0, "used": 1.0, "unhealthy": 1.0}
