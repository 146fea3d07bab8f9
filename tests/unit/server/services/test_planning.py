import pytest

from llmgw.ports import PutModel
from llmgw.schema.errors import NoLeader, NotFound
from llmgw.schema.model import Model, Profile
from llmgw.schema.replica import ReplicaState
from llmgw.server.services import planning


@pytest.fixture
async def served(room):
    """Two nodes that were heard, and a model that is on one of them."""
    for name in ("n1", "n2"):
        room.hear(await room.put_node(name))
    model = Model(name="m", source="hf:o/m@r", min=2, max=2, created_at=room.clock.now())
    await room.fleet.write([PutModel(model=model)])
    await room.put_replica("r1", "m", state=ReplicaState.STARTING)
    return room


async def test_a_plan_is_told_and_not_carried_out(served):
    before = served.fleet.rows
    told = await planning.planned(served.fleet)
    assert (told.changes, len(told.placements), told.hurts) == (1, 1, ())
    assert told.text.startswith("start m (revision 1) on n")
    assert served.fleet.rows == before


async def test_a_plan_says_whom_it_hurts(served):
    await served.fleet.write(
        [PutModel(model=Model(name="m", source="hf:o/m@r", revision=2, created_at=served.clock.now()))]
    )
    await served.put_replica("r2", "gone", state=ReplicaState.READY)
    told = await planning.planned(served.fleet)
    assert [removal.replica for removal in told.removals] == ["r1", "r2"]
    assert told.hurts == ()


async def test_a_model_is_explained(served):
    told = await planning.explained(served.fleet, "m")
    assert (told.desired, told.ready, told.missing) == (2, 0, 0)
    assert told.verdict == "m has 0 of 2 replicas ready; more are being placed"


async def test_a_model_that_fits_nowhere_is_told_what_would_help(served):
    model = Model(
        name="picky", source="hf:o/m@r", profile=Profile(node_selector={"zone": "a"}), created_at=served.clock.now()
    )
    await served.fleet.write([PutModel(model=model)])
    told = await planning.explained(served.fleet, "picky")
    assert told.missing == 1
    assert [change.text for change in told.changes] == [
        "label n1 zone=a",
        "label n2 zone=a",
        "let picky run on nodes with any label",
    ]


async def test_a_model_that_is_not_there_is_not_explained(served):
    with pytest.raises(NotFound):
        await planning.explained(served.fleet, "other")


async def test_only_a_leader_plans(served):
    served.lease.lose("other")
    for asking in (planning.planned(served.fleet), planning.explained(served.fleet, "m")):
        with pytest.raises(NoLeader, match="does not know what runs"):
            await asking
