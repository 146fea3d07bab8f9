"""Anthropic's own client against a gateway: with an engine that says what it is told to, and with a real llama.cpp."""

import json
from collections.abc import AsyncIterator, Callable

import anthropic
import pytest

from llmgw.config.gateway import GatewayConfig
from llmgw.schema.guard.rule import Stage
from llmgw.schema.model import Profile
from llmgw.testing.counting_model import write_counting_model
from llmgw.testing.engine_process import KEY, EngineProcess, shard_for
from llmgw.testing.fake_engine import Fault
from llmgw.testing.gateway_room import SECRET, Room, a_replica, a_route, a_view
from llmgw.testing.guard_policies import rule
from llmgw.testing.guard_room import DONE, GuardRoom, chunk, guard_room
from llmgw.testing.scripted_judge import WORD

ASK = {"model": "tiny", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
LOOK = {
    "name": "look",
    "description": "Look at a place.",
    "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
}
PIECES = ["words that harm nobody "] * 60


def client_of(room: Room, **options) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        **{"base_url": f"http://127.0.0.1:{room.port}", "api_key": SECRET, "max_retries": 0} | options
    )


@pytest.fixture
async def court(tmp_path) -> AsyncIterator[GuardRoom]:
    async with guard_room(tmp_path) as room:
        yield room


@pytest.fixture
async def client(court) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with client_of(court.room) as made:
        yield made


async def plainly(client, ask):
    return await client.messages.create(**ask)


async def streamed(client, ask):
    async with client.messages.stream(**ask) as stream:
        return await stream.get_final_message()


WAYS = pytest.mark.parametrize("given", [plainly, streamed])


def says(court: GuardRoom, finish: str, *deltas: dict) -> None:
    """Let the model say this, streamed or not."""
    court.engine.script = [*(chunk("", **delta) for delta in deltas), chunk("", finish=finish), DONE]
    whole: dict = {}
    for delta in deltas:
        whole |= delta
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **whole}}
    court.engine.plain = lambda _: json.dumps({"id": "chatcmpl-1", "model": "tiny", "choices": [choice]}).encode()


@WAYS
async def test_a_tool_is_thought_about_and_called_and_its_result_is_answered(court, client, given: Callable):
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sea"}'}}
    says(court, "tool_calls", {"reasoning_content": "Where?"}, {"content": "I look."}, {"tool_calls": [call]})
    message = await given(client, {**ASK, "tools": [LOOK], "tool_choice": {"type": "any"}})
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    thought, words, use = message.content
    assert (thought.thinking, words.text) == ("Where?", "I look.")
    assert (use.id, use.name, use.input) == ("call_1", "look", {"at": "sea"})
    assert message.stop_reason == "tool_use"

    says(court, "stop", {"content": "Blue."})
    result = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "blue"}]}
    turns = [*ASK["messages"], message.to_param(), {"role": "user", "content": [result]}]
    last = await given(client, {**ASK, "tools": [LOOK], "messages": turns})
    assert last.content[0].text == "Blue."
    first, second = (json.loads(request.body) for request in court.engine.requests)
    assert first["tool_choice"] == "required"
    assert first["tools"][0]["function"]["name"] == "look"
    assert [one["role"] for one in second["messages"]] == ["user", "assistant", "tool"]
    _, said, told = second["messages"]
    assert (said["content"], said["reasoning_content"]) == ("I look.", "Where?")
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"at": "sea"}
    assert told == {"role": "tool", "tool_call_id": "call_1", "content": "blue"}


@WAYS
async def test_a_request_that_is_blocked_is_a_typed_error_and_is_not_tried_again(court, given: Callable):
    court.rules(rule(stage=Stage.INPUT, name="in"))
    court.says("hello")
    async with client_of(court.room, max_retries=2) as stubborn:
        with pytest.raises(anthropic.BadRequestError) as caught:
            await given(stubborn, {**ASK, "messages": [{"role": "user", "content": WORD}]})
    error = caught.value.body["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "content_policy_violation")
    assert error["guardrails"] == ["p/in"]
    assert caught.value.request_id.startswith("req_")
    assert len(court.engine.requests) <= 1


@WAYS
async def test_an_answer_that_is_blocked_is_a_refusal(court, client, given: Callable):
    court.rules(rule(stage=Stage.OUTPUT, name="out"))
    court.says(*PIECES, WORD, *PIECES)
    message = await given(client, ASK)
    assert message.stop_reason == "refusal"
    assert WORD not in message.content[0].text
    court.says(WORD)
    message = await given(client, ASK)
    assert message.stop_reason == "refusal"
    assert "blocked by guardrail p/out" in message.content[0].text


async def test_a_judge_that_is_gone_is_an_overload_that_clients_understand(court, client):
    court.rules(rule(stage=Stage.OUTPUT))
    court.says("hello")
    await court.judge.stop()
    with pytest.raises(anthropic.InternalServerError) as caught:
        await streamed(client, ASK)
    assert caught.value.status_code == 503
    assert caught.value.body["error"]["type"] == "overloaded_error"


async def test_errors_are_the_clients_own_kinds(court, client):
    court.says("hello")
    for ask, kind in (
        ({**ASK, "model": "nope"}, anthropic.NotFoundError),
        ({**ASK, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}, anthropic.BadRequestError),
    ):
        with pytest.raises(kind):
            await plainly(client, ask)
    async with client_of(court.room, api_key="wrong") as stranger:
        with pytest.raises(anthropic.AuthenticationError):
            await plainly(stranger, ASK)
    async with client_of(court.room, api_key=None, auth_token=SECRET) as bearer:
        assert (await plainly(bearer, ASK)).content[0].text == "hello"


async def test_an_engine_that_dies_in_mid_stream_is_an_error_after_what_it_said(court, client):
    court.says(*PIECES)
    court.engine.fail(Fault.DIE, arg=3)
    seen = []

    async def read():
        async with client.messages.stream(**ASK) as stream:
            async for text in stream.text_stream:
                seen.append(text)  # noqa: PERF401 -- what came before the error counts

    with pytest.raises(anthropic.APIStatusError) as caught:
        await read()
    assert seen == PIECES[:3]
    assert caught.value.body["error"]["type"] == "api_error"


async def test_a_client_that_leaves_a_stream_frees_the_engine(court, client):
    court.says(*PIECES)
    court.engine.fail(Fault.STALL, arg=3)
    async with client.messages.stream(**ASK) as stream:
        async for _ in stream.text_stream:
            break
    await court.engine.until(lambda counts: counts.aborted == 1)


@pytest.fixture
async def real(tmp_path) -> AsyncIterator[anthropic.AsyncAnthropic]:
    pytest.importorskip("xllamacpp", reason="the embedded engine is not installed (extra `cpu`)")
    path = tmp_path / "counting.gguf"
    write_counting_model(path, last=20)
    with EngineProcess(shard_for(path, profile=Profile(context=1024, slots=2))) as engine:
        url = (await engine.started()).endpoint
        replica = a_replica("r1", url, kind="llamacpp", slots=2, context=1024, key=KEY)
        config = GatewayConfig(data_dir=str(tmp_path), control_socket=str(tmp_path / "s"), log_level="warning")
        room = Room(a_view(a_route(replica)), config)
        await room.open()
        async with client_of(room) as made:
            yield made
        await room.close()


COUNTED = "".join(f" {number}" for number in range(1, 21))


async def test_a_real_engine_answers_both_ways_and_counts_alike(real):
    ask = {**ASK, "system": "You count."}
    counted = await real.messages.count_tokens(model="tiny", system="You count.", messages=ASK["messages"])
    for given in (plainly, streamed):
        message = await given(real, ask)
        assert message.content[0].text == COUNTED
        assert message.stop_reason == "end_turn"
        usage = message.usage
        assert usage.input_tokens + usage.cache_read_input_tokens == counted.input_tokens
        assert usage.output_tokens == 21


async def test_a_real_engine_tells_the_prompts_tokens_in_the_first_event(real):
    counted = await real.messages.count_tokens(model="tiny", messages=ASK["messages"])
    stream = await real.messages.create(**ASK, stream=True)
    first, *_, last, _ = [event async for event in stream]
    told = first.message.usage
    assert told.input_tokens + told.cache_read_input_tokens == counted.input_tokens
    assert (told.input_tokens, told.cache_read_input_tokens) == (
        last.usage.input_tokens,
        last.usage.cache_read_input_tokens,
    )


@WAYS
async def test_a_real_engine_goes_on_where_the_answer_was_begun(real, given: Callable):
    turns = [*ASK["messages"], {"role": "assistant", "content": " 1 2 3"}]
    assert (await given(real, {**ASK, "messages": turns})).content[0].text == COUNTED.removeprefix(" 1 2 3")


async def test_a_real_engines_limit_and_context_are_told_in_anthropics_words(real):
    for given in (plainly, streamed):
        assert (await given(real, {**ASK, "max_tokens": 3})).stop_reason == "max_tokens"
        with pytest.raises(anthropic.BadRequestError) as caught:
            await given(real, {**ASK, "messages": [{"role": "user", "content": "word " * 3000}]})
        assert caught.value.body["error"]["message"].startswith("prompt is too long: ")
