"""The output stage: what is held back, changed, ended, and what is only looked at."""

import asyncio
import json

import pytest

from llmgw.core.guard.ledger import header
from llmgw.schema.guard.rule import Action, Limits, Stage
from llmgw.testing.fake_engine import Fault
from llmgw.testing.gateway_room import until
from llmgw.testing.guard_policies import rule
from llmgw.testing.guard_room import DONE, chunk, chunks, finishes, guard_room, said
from llmgw.testing.scripted_judge import WORD

HEADER = b"x-llmgw-guard"
PART = "words that harm nobody "
MANY = [PART] * 60
LONG = "".join(MANY)


async def test_a_stream_is_ended_as_filtered_and_nothing_unsafe_goes_out(court):
    court.rules(rule(stage=Stage.OUTPUT))
    court.says(*MANY, WORD, *MANY)
    answer = await court.room.chat(stream=True)
    assert answer.status == 200
    assert WORD.encode() not in answer.body
    assert finishes(answer.body) == ["content_filter"]
    assert answer.body.endswith(DONE)
    assert PART in said(answer.body)
    assert LONG.startswith(said(answer.body))


async def test_a_stream_that_is_blocked_before_its_first_word_says_why(court):
    court.rules(rule(stage=Stage.OUTPUT, name="calm"))
    court.says(WORD)
    answer = await court.room.chat(stream=True)
    assert answer.status == 200
    assert "blocked by guardrail p/calm" in said(answer.body)
    assert finishes(answer.body) == ["content_filter"]


async def test_a_plain_answer_is_replaced(court):
    court.rules(rule(stage=Stage.OUTPUT, name="calm"))
    court.says(LONG, WORD)
    answer = await court.room.chat()
    assert answer.status == 200
    assert WORD.encode() not in answer.body
    assert "blocked by guardrail p/calm" in said(answer.body)
    assert finishes(answer.body) == ["content_filter"]
    assert answer.headers[HEADER].startswith(b"blocked; ")


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_safe_goes_out_as_it_came(court, stream):
    court.rules(rule(stage=Stage.OUTPUT), rule(name="s", secrets="all"))
    court.says(LONG, "and more")
    answer = await court.room.chat(stream=stream)
    court.rules(rule(pattern="never found", stage=Stage.INPUT))
    assert answer.body == (await court.room.chat(stream=stream)).body
    assert said(answer.body) == LONG + "and more"


@pytest.mark.parametrize("stream", [False, True])
async def test_places_are_redacted_across_chunks(court, stream):
    court.rules(rule(personal_data=("email",), action=Action.REDACT, stage=Stage.OUTPUT))
    court.says("write to ada@exa", "mple.org", " now")
    answer = await court.room.chat(stream=stream)
    assert said(answer.body) == "write to [email] now"
    assert finishes(answer.body) == ["stop"]


async def test_reasoning_and_arguments_of_tools_are_held_too(court):
    court.rules(rule(stage=Stage.OUTPUT))
    call = {"index": 0, "function": {"arguments": json.dumps({"a": WORD})}}
    for delta in ({"reasoning_content": WORD}, {"tool_calls": [call]}):
        court.engine.script = [chunk("", role="assistant"), chunk("", **delta), chunk("", finish="stop"), DONE]
        answer = await court.room.chat(stream=True)
        assert WORD.encode() not in answer.body
        assert finishes(answer.body) == ["content_filter"]


async def test_every_choice_is_ended(court):
    court.rules(rule(stage=Stage.OUTPUT))
    court.engine.script = [
        chunk("fine"),
        chunk(WORD, index=1),
        chunk("", finish="stop"),
        chunk("", finish="stop", index=1),
        DONE,
    ]
    answer = await court.room.chat(stream=True, n=2)
    assert WORD.encode() not in answer.body
    ends = {choice["index"]: choice["finish_reason"] for one in chunks(answer.body) for choice in one["choices"]}
    assert ends == {0: "content_filter", 1: "content_filter"}


async def test_the_engine_is_told_at_once_when_its_answer_is_ended(court):
    court.rules(rule(pattern="dragon"))
    court.says("a dragon " + LONG, *[LONG] * 50)
    court.engine.chunk_s = 0.1
    answer = await court.room.chat(stream=True)
    assert finishes(answer.body) == ["content_filter"]
    await court.engine.until(lambda counts: counts.aborted == 1)


async def test_held_text_goes_out_while_the_engine_goes_on(court):
    court.rules(rule(stage=Stage.OUTPUT))
    court.says(LONG, LONG, "end")
    court.engine.chunk_s = 0.2
    response = await court.room.start(
        "/v1/chat/completions", {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    )
    async for piece in response.chunks():
        assert b"words" in piece
        assert court.engine.counts.finished == 0
        break
    response.close()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_judge_that_is_dead_gives_no_byte_of_the_answer(court, stream):
    court.rules(rule(stage=Stage.OUTPUT))
    court.says("hello")
    court.engine.script = [chunk("", role="assistant"), *court.engine.script]
    await court.judge.stop()
    answer = await court.room.chat(stream=stream)
    assert answer.status == 503
    assert answer.error["code"] == "guard_unavailable"
    assert answer.headers[b"x-should-retry"] == b"false"


async def test_a_judge_that_dies_in_the_middle_ends_the_stream_with_an_error(court):
    court.rules(rule(stage=Stage.OUTPUT, timeout_s=0.3))
    court.says(*MANY, *MANY)
    court.engine.chunk_s = 0.01
    asked = asyncio.ensure_future(court.room.chat(stream=True))
    await court.judge.until(lambda counts: counts.finished == 1)
    court.judge.fail(Fault.HANG, times=99)
    answer = await asked
    assert answer.status == 200
    assert chunks(answer.body)[-1]["error"]["code"] == "guard_unavailable"
    assert finishes(answer.body) == []


async def test_flags_pass_the_stream_as_it_came_and_are_recorded_after(court):
    court.says(LONG, WORD)
    court.rules(rule(stage=Stage.OUTPUT, action=Action.FLAG))
    court.judge.first_chunk_s = 0.2
    answer = await court.room.chat(stream=True)
    assert WORD in said(answer.body)
    assert finishes(answer.body) == ["stop"]
    await until(lambda: bool(court.audit()))
    assert header(court.audit()[0].coverage).startswith("flagged; rules=1; texts=2; failed=0")


async def test_the_replica_is_free_while_the_last_words_are_judged(court):
    court.rules(rule(stage=Stage.OUTPUT))
    court.says("hello")
    court.judge.first_chunk_s = 0.4
    asked = asyncio.ensure_future(court.room.chat(stream=True))
    await court.judge.until(lambda counts: counts.started == 1)
    await until(lambda: all(target.load == 0 for target in court.room.worker.view.route("tiny").targets))
    assert not asked.done()
    assert said((await asked).body) == "hello"


async def test_what_is_no_chunk_ends_a_held_stream(court):
    court.rules(rule(pattern="dragon"))
    court.engine.script = [chunk("fine"), b"data: {broken\n\n", chunk("dragon"), DONE]
    answer = await court.room.chat(stream=True)
    assert chunks(answer.body)[-1]["error"]["code"] == "upstream_error"
    assert b"dragon" not in answer.body


async def test_an_engine_that_breaks_off_is_told_after_what_was_judged(court):
    court.rules(rule(stage=Stage.OUTPUT))
    court.engine.fail(Fault.DIE, arg=4)
    answer = await court.room.chat(stream=True)
    assert said(answer.body).startswith(" 1 2")
    assert chunks(answer.body)[-1]["error"]["code"] == "upstream_error"


async def test_usage_is_told_in_a_stream_only_to_who_asks(court):
    court.rules(rule(pattern="dragon", stage=Stage.OUTPUT))
    with_it = await court.room.chat(stream=True, stream_options={"include_usage": True})
    without = await court.room.chat(stream=True)
    assert chunks(with_it.body)[-1]["usage"]["completion_tokens"] == 8
    assert all("usage" not in one for one in chunks(without.body))


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_of_the_wrong_shape_is_ended(court, stream):
    court.rules(rule(limits=Limits(json_schema={"type": "object"}), stage=Stage.OUTPUT))
    court.says("no ", "JSON")
    answer = await court.room.chat(stream=stream)
    assert finishes(answer.body) == ["content_filter"]
    assert "JSON" not in said(answer.body)
    court.says('{"a"', ": 1}")
    assert said((await court.room.chat(stream=stream)).body) == '{"a": 1}'


async def test_answers_put_together_from_a_stream_are_under_the_same_rules(tmp_path):
    async with guard_room(tmp_path, kind="llamacpp") as court:
        court.rules(rule(stage=Stage.OUTPUT))
        court.says(LONG, WORD)
        answer = await court.room.chat()
        assert finishes(answer.body) == ["content_filter"]
        assert WORD.encode() not in answer.body
        assert json.loads(answer.body)["object"] == "chat.completion"


async def test_a_client_that_leaves_ends_a_held_stream(court):
    court.rules(rule(stage=Stage.OUTPUT))
    court.says(*[LONG] * 20)
    court.engine.chunk_s = 0.1
    court.judge.fail(Fault.HANG, times=99)
    asked = asyncio.ensure_future(court.room.chat(stream=True))
    await court.judge.until(lambda counts: counts.started == 1)
    asked.cancel()
    await court.engine.until(lambda counts: counts.aborted == 1)
    await court.judge.until(lambda counts: counts.aborted == 1)
    await until(lambda: bool(court.audit()))
    assert any(part.why == "cut_off" for part in court.audit()[0].coverage.unscanned)
