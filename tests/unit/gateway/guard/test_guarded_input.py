"""The input stage: what is refused, what is changed, and that nothing leaves too early."""

import asyncio
import json

import pytest

from llmgw.core.guard.ledger import header
from llmgw.schema.guard.policy import Attachment
from llmgw.schema.guard.rule import Action, FailurePolicy, Limits, OnFailure, Stage
from llmgw.testing.fake_engine import Fault
from llmgw.testing.gateway_room import a_route, until
from llmgw.testing.guard_policies import rule
from llmgw.testing.guard_room import guard_room
from llmgw.testing.scripted_judge import WORD

HEADER = b"x-llmgw-guard"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_pattern_refuses_before_the_engine_is_asked(court, stream):
    court.rules(rule(pattern="dragon", action=Action.BLOCK, name="no-dragons"))
    answer = await court.room.chat(text="a dragon", stream=stream)
    assert answer.status == 400
    assert answer.error["code"] == "content_policy_violation"
    assert answer.error["guardrails"] == ["p/no-dragons"]
    assert "dragon" not in answer.error["message"].replace("no-dragons", "")
    assert answer.headers[b"x-should-retry"] == b"false"
    assert answer.headers[HEADER].startswith(b"blocked; ")
    assert not court.engine.requests


async def test_who_has_no_rules_gets_the_answer_as_it_is(court):
    court.rules(rule(pattern="dragon"), exempt=Attachment(projects=("default",)))
    answer = await court.room.chat(text="a dragon")
    assert answer.status == 200
    assert HEADER not in answer.headers


@pytest.mark.parametrize("stream", [False, True])
async def test_a_judge_refuses_while_the_engine_works_and_the_engine_is_told_at_once(court, stream):
    court.rules(rule(stage=Stage.INPUT))
    court.engine.first_chunk_s = 60
    answer = await court.room.chat(text=f"this is {WORD}", stream=stream)
    assert answer.status == 400
    assert answer.error["code"] == "content_policy_violation"
    assert answer.error["categories"] == ["weapons"]
    await court.engine.until(lambda counts: counts.aborted == 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_engine_works_while_the_judge_thinks_and_no_byte_leaves_before_it_answered(court, stream):
    court.rules(rule(stage=Stage.INPUT))
    court.judge.first_chunk_s = 0.3
    asked = asyncio.ensure_future(court.room.start("/v1/chat/completions", _body(stream=stream)))
    await court.engine.until(lambda counts: counts.finished == 1)
    assert not asked.done()
    response = await asked
    assert response.status == 200
    assert response.header(HEADER).startswith(b"allowed; rules=1; texts=1; failed=0")
    await response.read(1 << 20)
    response.close()


@pytest.mark.parametrize(("text", "status"), [("fine", 200), (WORD, 400)])
async def test_a_held_stream_gets_no_comment_before_the_judge_answered(tmp_path, text, status):
    async with guard_room(tmp_path, hold_comment_s=0.02) as court:
        away = a_route(hold_s=30.0, unavailable="it starts")
        court.routes = (away, *court.routes[1:])
        court.rules(rule(stage=Stage.INPUT))
        court.judge.first_chunk_s = 0.3
        body = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": text}]}
        asked = asyncio.ensure_future(court.room.start("/v1/chat/completions", body))
        await court.judge.until(lambda counts: counts.started == 1)
        await asyncio.sleep(0.1)
        assert not asked.done()
        response = await asked
        assert response.status == status
        if status == 200:
            async for piece in response.chunks():
                assert piece.startswith(b": starting tiny")
                break
        response.close()


async def test_an_error_of_the_engine_does_not_overtake_the_judge(court):
    court.rules(rule(stage=Stage.INPUT))
    court.judge.first_chunk_s = 0.2
    court.engine.fail(Fault.STATUS, arg=400)
    answer = await court.room.chat(text=WORD)
    assert answer.error["code"] == "content_policy_violation"


async def test_flags_never_delay_and_are_recorded_after(court):
    court.rules(rule(stage=Stage.INPUT, action=Action.FLAG))
    court.judge.first_chunk_s = 0.3
    answer = await court.room.chat(text=WORD)
    assert answer.status == 200
    assert b"texts=0" in answer.headers[HEADER]
    await until(lambda: bool(court.audit()))
    entries = court.audit()
    assert header(entries[0].coverage).startswith("flagged; rules=1; texts=1")
    assert entries[0].key == "lk_ABCDEFGH"
    assert entries[0].surface == "chat"


async def test_what_a_rule_redacts_never_reaches_the_engine(court):
    court.rules(rule(personal_data=("email",), action=Action.REDACT, stage=Stage.INPUT))
    answer = await court.room.chat(text="write to ada@example.org now")
    assert answer.status == 200
    sent = json.loads(court.engine.requests[0].body)
    assert sent["messages"][0]["content"] == "write to [email] now"
    assert answer.headers[HEADER].startswith(b"redacted; ")


async def test_a_name_that_cannot_be_replaced_is_refused(court):
    court.rules(rule(personal_data=("email",), action=Action.REDACT, stage=Stage.INPUT))
    tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"ada@example.org": {}}}}}
    answer = await court.room.chat(tools=[tool])
    assert answer.status == 400
    assert not court.engine.requests


async def test_pictures_are_refused_where_a_rule_blocks_and_named(court):
    court.rules(rule(pattern="dragon"))
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    body = {"model": "tiny", "messages": [{"role": "user", "content": [picture]}]}
    answer = await court.room.ask("/v1/chat/completions", body)
    assert answer.status == 400
    assert answer.error["code"] == "unscannable_content"
    assert answer.error["param"] == "messages[0].content[0]"


async def test_embeddings_are_under_the_same_rules(court):
    court.rules(rule(limits=Limits(max_characters=3)))
    answer = await court.room.ask("/v1/embeddings", {"model": "tiny", "input": ["too long"]})
    assert answer.error["code"] in {"content_policy_violation", "wrong_role"}


@pytest.mark.parametrize(
    ("trouble", "kind", "again"),
    [
        (lambda court: court.judge.fail(Fault.HANG, times=9), "timeout", b"true"),
        (lambda court: court.judge.fail(Fault.DROP, times=9), "unreachable", b"false"),
        (lambda court: court.judge.fail(Fault.STATUS, arg=400, times=9), "misconfigured", b"false"),
        (
            lambda court: setattr(court.judge, "plain", lambda _: b'{"choices": [{"text": "maybe"}]}'),
            "unclear",
            b"false",
        ),
        (lambda court: setattr(court.judge, "plain", lambda _: b'{"choices": [{"text": ""}]}'), "unclear", b"false"),
        (lambda court: court.room.worker.policies.take_quarantine({"guard": "is odd"}, ()), "misconfigured", b"false"),
    ],
)
async def test_a_failing_judge_never_says_safe(court, trouble, kind, again):
    court.rules(rule(stage=Stage.INPUT, timeout_s=0.3))
    trouble(court)
    answer = await court.room.chat()
    assert answer.status == 503
    assert answer.error["code"] == "guard_unavailable"
    assert answer.headers[b"x-should-retry"] == again
    assert (b"retry-after" in answer.headers) == (again == b"true")
    await until(lambda: bool(court.audit()))
    (entry,) = court.audit()
    assert entry.coverage.scans[0].failure == kind
    assert entry.coverage.scans[0].characters == 0


async def test_a_rule_that_fails_open_lets_pass_and_every_bypass_is_counted(court):
    opened = FailurePolicy(timeout=OnFailure.OPEN)
    court.rules(rule(stage=Stage.INPUT, timeout_s=0.1, on_failure=opened))
    court.judge.fail(Fault.HANG, times=9)
    for _ in range(3):
        answer = await court.room.chat()
        assert answer.status == 200
        assert b"failed=1; bypassed=1" in answer.headers[HEADER]
    await until(lambda: court.counted("llmgw_guard_bypasses", failure="timeout") == 3)


async def test_a_client_that_leaves_ends_the_questions_about_it(court):
    court.rules(rule(stage=Stage.INPUT))
    court.judge.fail(Fault.HANG)
    court.engine.first_chunk_s = 60
    asked = asyncio.ensure_future(court.room.chat())
    await court.judge.until(lambda counts: counts.started == 1)
    await court.engine.until(lambda counts: counts.started == 1)
    asked.cancel()
    await court.judge.until(lambda counts: counts.aborted == 1)
    await court.engine.until(lambda counts: counts.aborted == 1)


def _body(**fields):
    return {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], **fields}
