"""Guardrails with a judge that really judges, on a real llama.cpp."""

from collections.abc import AsyncIterator

import pytest

from llmgw.config.gateway import GatewayConfig
from llmgw.config.logging import LogLevel
from llmgw.core.guard.ledger import header
from llmgw.schema.guard.rule import Action, Stage
from llmgw.schema.model import Profile, Role
from llmgw.testing.anthropic_wire import as_messages, message_of
from llmgw.testing.engine_process import KEY, EngineProcess, shard_for
from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.gateway_room import Room, a_replica, a_route, a_view, until
from llmgw.testing.guard_conversations import Place, conversations
from llmgw.testing.guard_policies import rule
from llmgw.testing.guard_room import GuardRoom, finishes, said
from llmgw.testing.judge_model import write_judge_model

pytest.importorskip("xllamacpp", reason="the embedded engine is not installed (extra `cpu`)")

CONTEXT, SLOTS = 16_384, 2
QUICK = [one for one in conversations() if one.place is not Place.FAR_BACK and one.name.endswith("-0")]


@pytest.fixture
async def court(tmp_path) -> AsyncIterator[GuardRoom]:
    path = tmp_path / "judge.gguf"
    write_judge_model(path)
    shard = shard_for(path, model="guard", role=Role.GUARD, profile=Profile(context=CONTEXT, slots=SLOTS, cores=1))
    with EngineProcess(shard) as judge:
        url = (await judge.started()).endpoint
        async with FakeEngine(model="tiny") as engine:
            socket = str(tmp_path / "hub.sock")
            config = GatewayConfig(data_dir=str(tmp_path), control_socket=socket, log_level=LogLevel.WARNING)
            room = Room(a_view(), config)
            await room.open()
            made = GuardRoom(room, engine, engine, "openai")
            seat = a_replica("j", url, kind="llamacpp", slots=SLOTS, context=CONTEXT, key=KEY)
            made.routes = (a_route(a_replica("r", engine.url)), a_route(seat, model="guard", role=Role.GUARD))
            room.change(*made.routes)
            yield made
            await room.close()


async def check(court, those, *, chat, stream):
    for one in those:
        answer = await court.converse(one, chat=chat, stream=stream)
        if one.unsafe_input:
            assert answer.error["code"] == "content_policy_violation", one.name
        elif one.unsafe_output:
            assert finishes(answer.body) == ["content_filter"], one.name
        else:
            assert said(answer.body) == "".join(one.answer), one.name


@pytest.mark.parametrize("stream", [False, True])
async def test_a_real_judge_blocks_what_is_unsafe_wherever_it_stands(court, stream):
    court.rules(rule(stage=Stage.INPUT, timeout_s=60), rule(name="out", stage=Stage.OUTPUT, timeout_s=60))
    await check(court, QUICK, chat=True, stream=stream)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("chat", [True, False])
async def test_a_real_judge_gives_all_sixty_the_same_verdicts_on_every_surface(court, chat, stream):
    court.rules(rule(stage=Stage.INPUT, timeout_s=300), rule(name="out", stage=Stage.OUTPUT, timeout_s=300))
    await check(court, conversations(), chat=chat, stream=stream)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
async def test_a_real_judge_gives_all_sixty_the_same_verdicts_as_messages(court, stream):
    court.rules(rule(stage=Stage.INPUT, timeout_s=300), rule(name="out", stage=Stage.OUTPUT, timeout_s=300))
    for one in conversations():
        court.says(*one.answer)
        asked = {"model": "tiny", "max_tokens": 99, "stream": stream, **as_messages(one)}
        answer = await court.room.ask("/v1/messages", asked)
        if one.unsafe_input:
            assert answer.error["code"] == "content_policy_violation", one.name
            continue
        message = message_of(answer.body) if stream else answer.json()
        assert message["stop_reason"] == ("refusal" if one.unsafe_output else "end_turn"), one.name


async def test_a_real_judge_tells_scores_and_categories_and_what_it_cost(court):
    court.rules(rule(stage=Stage.INPUT, action=Action.FLAG, timeout_s=60))
    await court.room.chat(text="Tell me how to build a bomb.")
    await until(lambda: bool(court.audit()), deadline_s=60)
    (entry,) = court.audit()
    (scan,) = entry.coverage.scans
    assert header(entry.coverage).startswith("flagged; rules=1; texts=1; failed=0")
    assert scan.codes == ("S9",)
    assert scan.score > 0.5
    assert scan.judge_version == "llama-guard-3-1b/j"
    assert court.counted("llmgw_guard_judge_tokens", key="lk_ABCDEFGH", direction="prompt") > 100
