import pytest

from llmgw.ports import PutPolicy
from llmgw.schema.admin.guard import EnableJudge
from llmgw.schema.admin.model import ScaleModel, ServeModel
from llmgw.schema.demand import DemandReport, JudgeReport
from llmgw.schema.errors import Conflict, InvalidInput
from llmgw.schema.guard.judge import CanaryReport, CanaryState, JudgeFamily, JudgeState
from llmgw.schema.model import ModelStatus, Parked, Role
from llmgw.schema.weights import Weights, WeightsFormat
from llmgw.server.services import judge_enable, judges, models
from llmgw.testing.guard_policies import policy, rule

SMALL, LARGE, CHAT = "/w/Llama-Guard-3-1B-Q8_0.gguf", "/w/Llama-Guard-3-8B.gguf", "/w/chat.gguf"
WRONG = CanaryReport(state=CanaryState.ALWAYS_SAFE, right=2, total=4, text="says safe to everything")


async def _node(room, *paths, name="n1"):
    found = tuple(Weights(path=path, format=WeightsFormat.GGUF, size_bytes=9) for path in paths)
    return await room.put_node(name, weights=found)


async def _ask(room, **fields):
    await room.fleet.write([PutPolicy(policy=policy("p", rule(judge="guard", **fields)))])


async def _enable(room, **fields):
    return await judge_enable.enable(room.fleet, room.clock, "guard", EnableJudge(**fields), actor="lt_A")


async def _serve(room, **fields):
    request = ServeModel(**{"name": "guard", "source": CHAT} | fields)
    return await models.serve(room.fleet, room.clock, request, actor="lt_A")


def _say(room, **fields):
    room.board.report(DemandReport(gateway="g", seq=1, judges={"guard": JudgeReport(**fields)}))


async def test_an_absent_judge_is_served_from_the_small_llama_guard_that_a_node_has(room):
    await _node(room, CHAT, LARGE, SMALL)
    await _ask(room)
    done = await _enable(room)
    model = models.one_model(room.fleet, "guard")
    assert (model.role, model.source, model.min) == (Role.GUARD, SMALL, 1)
    assert model.max > 1, "its queue may ask for more"
    assert done.did == (f"serves {SMALL} (Llama Guard 3 1B, found on n1) in role guard",)
    assert done.judge.state is JudgeState.NO_REPLICA
    (event,) = await room.store.load_events(limit=1)
    assert (event.kind, event.actor, event.model) == ("judge.enabled", "lt_A", "guard")


async def test_without_weights_of_a_judge_the_refusal_says_what_was_looked_for(room):
    await _node(room, CHAT)
    await _ask(room)
    with pytest.raises(InvalidInput, match=r"Llama Guard 3 1B or .* among 1 file on 1 node") as refused:
        await _enable(room)
    assert "--source" in refused.value.hint
    assert room.fleet.rows.models == ()


async def test_named_weights_that_are_no_judge_are_refused_unless_a_policy_says_so(room):
    await _node(room, CHAT)
    await _ask(room)
    with pytest.raises(InvalidInput, match="not recognised"):
        await _enable(room, source=CHAT)
    await _ask(room, family=JudgeFamily.PROMPTED)
    assert (await _enable(room, source=CHAT)).source == CHAT


async def test_a_chat_model_of_that_name_is_replaced_only_when_told_to(room):
    await _node(room, CHAT, SMALL)
    await _ask(room)
    await _serve(room)
    with pytest.raises(Conflict, match="role chat") as refused:
        await _enable(room)
    assert "--replace" in refused.value.hint
    done = await _enable(room, replace=True)
    model = models.one_model(room.fleet, "guard")
    assert (model.role, model.source, model.revision) == (Role.GUARD, SMALL, 2)
    assert done.did == (
        f"replaces {CHAT} by {SMALL} (Llama Guard 3 1B, found on n1)",
        "takes the model from role chat to role guard",
    )


async def test_a_judges_weights_served_as_a_chat_model_stay(room):
    await _node(room, LARGE, SMALL)
    await _ask(room)
    await _serve(room, source=LARGE)
    assert (await _enable(room, replace=True)).did == ("takes the model from role chat to role guard",)
    assert models.one_model(room.fleet, "guard").source == LARGE


async def test_a_judge_that_says_safe_to_everything_gets_other_weights_where_there_are_any(room):
    await _node(room, SMALL)
    await _ask(room)
    await _enable(room)
    await room.put_replica("r1", "guard")
    _say(room, canaries=WRONG, quarantined=True)
    assert judges.judge_statuses(room.fleet)[0].state is JudgeState.WRONG
    with pytest.raises(InvalidInput, match="no node has weights"):
        await _enable(room, replace=True)
    await _node(room, LARGE, name="n2")
    assert (await _enable(room, replace=True)).source == LARGE


async def test_a_parked_judge_is_tried_again_and_one_scaled_to_nothing_wants_a_replica(room):
    await _node(room, SMALL)
    await _ask(room)
    await _enable(room)
    await models.scale(room.fleet, room.clock, "guard", ScaleModel(replicas=0), actor="a")
    parked = Parked(failures=5, reason="broken", since=room.clock.now())
    await room.put_status(ModelStatus(model="guard", failures=5, parked=parked))
    assert (await _enable(room)).did == ("wants one replica at least", "is tried again")
    assert room.fleet.rows.statuses[0].parked is None
    assert models.one_model(room.fleet, "guard").min == 1


async def test_a_judge_that_does_well_is_left_as_it_is(room):
    await _node(room, SMALL)
    await _ask(room)
    await _enable(room)
    await room.put_replica("r1", "guard")
    right = CanaryReport(state=CanaryState.RIGHT, right=4, total=4, text="gave 4 right verdicts")
    _say(room, canaries=right)
    before = room.fleet.rows
    assert (await _enable(room)).did == ("nothing to do: it is healthy",)
    assert room.fleet.rows is before
