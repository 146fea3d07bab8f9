from llmgw.schema.engine import EngineKind
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import ShardReport
from llmgw.testing.fake_load import fake_load
from llmgw.testing.fake_node import GIB, fake_facts


def engine(shard, phase=ShardPhase.READY):
    return ShardReport(id=shard, attempt=1, phase=phase, model="m", engine=EngineKind.LLAMACPP)


def test_a_load_swings_within_what_the_node_has():
    facts = fake_facts("n1", cores=4.0, memory_bytes=8 * GIB)
    engines = [engine("r1.0"), engine("r2.0"), engine("r3.0")]
    loads = [fake_load(facts, engines, at) for at in range(0, 600, 5)]
    assert len({load.cpu_percent for load in loads}) > 50
    assert all(0 < load.cpu_percent <= 100 for load in loads)
    assert all(load.memory_used_bytes + load.memory_available_bytes == 8 * GIB for load in loads)
    assert {one.shard for one in loads[0].shards} == {"r1.0", "r2.0", "r3.0"}


def test_an_engine_that_starts_uses_nothing_yet():
    assert fake_load(fake_facts("n1"), [engine("r1.0", ShardPhase.STARTING)], 1.0).shards == ()


def test_memory_that_is_unknown_stays_so():
    load = fake_load(fake_facts("n1", memory_bytes=None), [], 1.0)
    assert (load.memory_used_bytes, load.memory_available_bytes) == (None, None)
