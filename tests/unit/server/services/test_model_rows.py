import pytest
from msgspec.structs import replace

from llmgw.ports import PutModel, PutNode
from llmgw.schema.admin.model import ModelState, ServeModel
from llmgw.schema.engine import EngineKind
from llmgw.schema.model import Model, ModelStatus, Parked
from llmgw.schema.node import Reachability
from llmgw.schema.plan import Constraint, Rejection
from llmgw.schema.replica import ReplicaState, ShardPhase
from llmgw.schema.report import ShardReport
from llmgw.server.services import models
from llmgw.server.services.model_rows import model_rows


@pytest.fixture
async def served(room):
    node = await room.put_node()
    room.hear(node)
    await models.serve(room.fleet, room.clock, ServeModel(name="m", source="/m.gguf"), actor="a")
    return room


def _word(room) -> tuple[str, str | None]:
    row = models.one_model(room.fleet, "m")
    return row.state, row.reason


async def test_a_model_just_defined_waits_to_be_placed(served):
    assert _word(served) == ("short", "waits to be placed")


async def test_a_model_with_enough_ready_replicas_is_ready(served):
    await served.put_replica("r1", "m")
    assert _word(served) == ("ready", None)
    assert models.one_model(served.fleet, "m").ready == 1


async def test_a_ready_model_is_ready_even_with_an_old_complaint(served):
    await served.put_replica("r1", "m")
    await served.put_status(ModelStatus(model="m", unplaceable="1 node: 1 full"))
    assert _word(served) == ("ready", None)


async def test_a_starting_model_says_what_its_engine_does(served):
    await served.put_replica("r1", "m", state=ReplicaState.STARTING)
    node = served.fleet.rows.nodes[0]
    report = ShardReport(
        id="r1.0",
        attempt=1,
        phase=ShardPhase.STARTING,
        model="m",
        engine=EngineKind.LLAMACPP,
        progress="loading weights, 41 %",
    )
    served.hear(node, reports=(report,))
    assert _word(served) == ("starting", "loading weights, 41 %")


async def test_the_progress_of_an_earlier_start_is_not_shown(served):
    await served.put_replica("r1", "m", state=ReplicaState.STARTING, attempt=2)
    report = ShardReport(
        id="r1.0", attempt=1, phase=ShardPhase.STARTING, model="m", engine=EngineKind.LLAMACPP, progress="loading"
    )
    served.hear(served.fleet.rows.nodes[0], reports=(report,))
    assert _word(served) == ("starting", None)


async def test_a_parked_model_shows_the_last_error(served):
    parked = Parked(failures=5, reason="bad flag --x", since=served.clock.now())
    await served.put_replica("r1", "m", state=ReplicaState.FAILED)
    await served.put_status(ModelStatus(model="m", failures=5, parked=parked))
    assert _word(served) == ("parked", "bad flag --x")


async def test_an_unplaceable_model_shows_the_sentence_and_the_rejections(served):
    rejection = Rejection(node="n1", constraint=Constraint.MEMORY, detail="needs 12.0 GiB, 3.1 GiB free")
    await served.put_status(ModelStatus(model="m", unplaceable="1 node: 1 lacks memory", rejections=(rejection,)))
    assert _word(served) == ("unplaceable", "1 node: 1 lacks memory")
    assert models.one_model(served.fleet, "m").rejections == (rejection,)


async def test_a_model_between_two_tries_says_why_and_when(served):
    await served.put_replica("r1", "m", state=ReplicaState.FAILED)
    await served.put_status(
        ModelStatus(model="m", failures=1, last_failure="out of memory", retry_at=served.clock.now())
    )
    assert _word(served) == ("short", "out of memory; tried again at 03:04:05 UTC")


async def test_a_row_lists_the_replicas_of_its_model_only(served):
    await served.put_replica("r1", "m")
    await served.put_replica("r2", "other")
    assert [replica.id for replica in models.one_model(served.fleet, "m").replicas] == ["r1"]


async def test_a_replica_that_was_lost_with_its_node_is_shown_and_not_counted(room):
    await room.fleet.write([PutModel(model=Model(name="m", source="hf:o/m@r", created_at=room.clock.now()))])
    lost = replace(await room.put_node(), reachability=Reachability.LOST)
    await room.put_replica("r1", "m")
    assert (model_rows(room.fleet)[0].ready, model_rows(room.fleet)[0].state) == (1, ModelState.READY)
    await room.fleet.write([PutNode(node=lost)])
    (row,) = model_rows(room.fleet)
    assert (row.ready, row.state, [one.id for one in row.replicas]) == (0, ModelState.SHORT, ["r1"])
