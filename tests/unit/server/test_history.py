import pytest

from llmgw.ports import DeleteNode, PutModel
from llmgw.schema.demand import DemandReport, ModelDemand
from llmgw.schema.engine import EngineKind
from llmgw.schema.history import HistorySource, SeriesName
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import Load, ShardLoad, ShardReport
from llmgw.server.history import LOOK_S, KeptHistory
from llmgw.server.hour import SLOTS, STEP_S
from llmgw.testing.control_room import ControlRoom
from llmgw.testing.factories import make_model


@pytest.fixture
async def room():
    room = ControlRoom()
    await room.open()
    return room


@pytest.fixture
def kept(room):
    return KeptHistory(room.fleet, room.clock)


def report(shard, model):
    return ShardReport(id=shard, attempt=1, phase=ShardPhase.READY, model=model, engine=EngineKind.LLAMACPP)


def values(history, name, **labels):
    (found,) = [one for one in history.series if (one.name, one.labels) == (name, labels)] or [None]
    return [] if found is None else [value for _, value in found.points]


async def test_each_measurement_has_its_place_and_its_value(room, kept):
    node = await room.put_node()
    for cpu in (10.0, 20.0, 30.0):
        room.hear(node, load=Load(age_s=0.5, cpu_percent=cpu, memory_used_bytes=2**33, load1=0.25))
        kept.look()
        room.clock.advance(STEP_S)
    history = kept.of("n1", ())
    assert (history.source, history.step_s, history.problem) == (HistorySource.MEMORY, STEP_S, None)
    assert values(history, SeriesName.CPU_PERCENT)[-4:] == [10.0, 20.0, 30.0, None]
    assert values(history, SeriesName.MEMORY_USED_BYTES)[-2:] == [2.0**33, None]
    assert values(history, SeriesName.LOAD1)[-2:] == [0.25, None]


async def test_a_silent_agents_last_measurement_is_one_point_and_never_repeated(room, kept):
    node = await room.put_node()
    room.hear(node, load=Load(age_s=0.1, cpu_percent=55.0))
    for _ in range(60):
        kept.look()
        room.clock.advance(LOOK_S)
    found = values(kept.of("n1", ()), SeriesName.CPU_PERCENT)
    assert [value for value in found if value is not None] == [55.0]
    assert len(found) == SLOTS


async def test_an_agent_that_measures_every_five_seconds_leaves_no_gap(room, kept):
    node = await room.put_node()
    for turn in range(100):
        room.hear(node, load=Load(age_s=0.2 + (turn % 7) * 0.3, load1=float(turn)))
        room.clock.advance(0.4)
        kept.look()
        room.clock.advance(4.6)
    found = values(kept.of("n1", ()), SeriesName.LOAD1)
    first = next(place for place, value in enumerate(found) if value is not None)
    assert None not in found[first:-1]


async def test_engines_are_summed_up_by_model_and_an_unknown_part_makes_the_sum_unknown(room, kept):
    node = await room.put_node()
    reports = (report("ra.0", "chat"), report("rb.0", "chat"), report("rc.0", "embed"))
    shards = (
        ShardLoad(shard="ra.0", cpu_cores=1.5, memory_bytes=100),
        ShardLoad(shard="rb.0", cpu_cores=0.25, memory_bytes=None),
        ShardLoad(shard="rc.0", cpu_cores=0.0, memory_bytes=7),
        ShardLoad(shard="unknown.0", cpu_cores=9.0, memory_bytes=9),
    )
    room.hear(node, reports=reports, load=Load(age_s=0.0, shards=shards))
    kept.look()
    history = kept.of("n1", ())
    assert values(history, SeriesName.MODEL_CORES, model="chat")[-1] == 1.75
    assert values(history, SeriesName.MODEL_CORES, model="embed")[-1] == 0.0
    assert values(history, SeriesName.MODEL_MEMORY_BYTES, model="embed")[-1] == 7
    assert values(history, SeriesName.MODEL_MEMORY_BYTES, model="chat") == []
    assert kept.models("n1") == {"chat", "embed"}


async def test_queues_are_summed_up_over_gateways_and_unknown_without_one(room, kept):
    await room.put_node()
    await room.fleet.write([PutModel(model=make_model("chat")), PutModel(model=make_model("calm"))])
    kept.look()
    assert kept.of("n1", ("chat",)).series == ()
    for gateway, held in (("g1", 2), ("g2", 3)):
        demand = {"chat": ModelDemand(held=held, in_flight=1, arrivals=5)}
        room.board.report(DemandReport(gateway=gateway, seq=1, models=demand))
    kept.look()
    history = kept.of("n1", ("calm", "chat"))
    assert values(history, SeriesName.QUEUE_DEPTH, model="chat")[-1] == 5
    assert values(history, SeriesName.QUEUE_DEPTH, model="calm")[-1] == 0
    room.clock.advance(STEP_S)
    kept.look()
    assert values(kept.of("n1", ("chat",)), SeriesName.QUEUE_DEPTH, model="chat")[-2:] == [5, None]


async def test_a_removed_nodes_hour_is_gone(room, kept):
    node = await room.put_node()
    room.hear(node, load=Load(age_s=0.0, cpu_percent=5.0))
    kept.look()
    await room.fleet.write([DeleteNode(id="n1")])
    kept.look()
    await room.put_node()
    room.live.forget()
    kept.look()
    assert kept.of("n1", ()).series == ()
