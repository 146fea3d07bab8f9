"""`/v1/messages` through a worker: whose it is, what is refused and how, and that a client may leave at any time."""

import asyncio
import json

import pytest

from llmgw.core.guard.refusal import BLOCKED
from llmgw.schema.guard.rule import Action, Stage
from llmgw.schema.model import Role
from llmgw.testing.anthropic_wire import events_of, message_of, texts
from llmgw.testing.fake_engine import Fault
from llmgw.testing.gateway_room import SECRET, a_replica, a_route, until
from llmgw.testing.guard_policies import rule
from llmgw.testing.guard_room import DONE, chunk, guard_room
from llmgw.testing.scripted_judge import WORD

PATH = "/v1/messages"
ASK = {"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
STREAM = {**ASK, "stream": True}


async def test_a_message_and_its_stream_are_the_same(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)))
    plain = await here.ask(PATH, ASK)
    stream = await here.ask(PATH, STREAM)
    assert (plain.status, stream.status) == (200, 200)
    assert plain.headers[b"request-id"] == plain.headers[b"x-request-id"]
    assert stream.headers[b"content-type"] == b"text/event-stream"
    assert texts(plain.json()) == " 1 2 3 4 5 6 7 8"
    assert plain.json()["usage"]["output_tokens"] == 8
    assert {**message_of(stream.body), "id": None} == {**plain.json(), "id": None}
    assert {request.path for request in engine.requests} == {"/v1/chat/completions"}


@pytest.mark.parametrize(
    "headers",
    [
        [(b"x-api-key", SECRET.encode())],
        [(b"authorization", b"Bearer " + SECRET.encode())],
        [(b"x-api-key", SECRET.encode()), (b"anthropic-version", b"2023-06-01"), (b"anthropic-beta", b"a,b")],
    ],
)
async def test_a_key_comes_in_either_header(room, engine, headers):
    here = await room(a_route(a_replica("r1", engine.url)))
    assert (await here.ask(f"{PATH}?beta=true", ASK, key=None, headers=headers)).status == 200


async def test_errors_have_anthropics_shape_whoever_finds_them(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)), a_route(model="gone", unavailable="no node has room"))
    for answer, status, kind in (
        (await here.ask(PATH, ASK, key=None), 401, "authentication_error"),
        (await here.ask(PATH, {**ASK, "model": "nope"}), 404, "not_found_error"),
        (await here.ask(PATH, {**ASK, "model": "gone"}), 503, "overloaded_error"),
        (await here.ask(PATH), 405, "invalid_request_error"),
        (await here.ask(PATH, b"{"), 400, "invalid_request_error"),
        (await here.ask(PATH, ASK, headers=[(b"content-type", b"text/plain")]), 415, "invalid_request_error"),
    ):
        assert answer.status == status
        assert answer.json()["type"] == "error"
        assert answer.error["type"] == kind
        assert answer.json()["request_id"].encode() == answer.headers[b"request-id"]
    assert engine.counts.started == 0


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"max_tokens": None}, "max_tokens", "int"),
        ({"max_tokens": 0}, "max_tokens", ">= 1"),
        ({"messages": []}, "messages", "length >= 1"),
        ({"messages": "hi"}, "messages", "array"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role", "'user', 'assistant', 'system'"),
        (
            {"messages": [{"role": "user", "content": [{"type": "video"}]}]},
            "messages[0].content[0].type",
            "'text', 'image', 'document'",
        ),
        ({"thinking": {"type": "between_tools"}}, "thinking.type", "'enabled', 'adaptive', 'disabled'"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type", "'custom'"),
        ({"n": 2}, "n", "one message"),
        ({"stream": "yes"}, "stream", "bool"),
    ],
)
async def test_a_wrong_field_is_named_and_what_is_allowed(room, engine, fields, param, words):
    here = await room(a_route(a_replica("r1", engine.url)))
    answer = await here.ask(PATH, {**ASK, **fields})
    assert (answer.status, answer.error["param"]) == (400, param)
    assert words in answer.error["message"]


async def test_a_missing_limit_a_repeated_field_and_depth_are_refused(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)))
    without = {name: value for name, value in ASK.items() if name != "max_tokens"}
    assert (await here.ask(PATH, without)).error["param"] == "max_tokens"
    twice = json.dumps(ASK).encode()[:-1] + b',"model":"other"}'
    assert (await here.ask(PATH, twice)).error["code"] == "repeated_parameter"
    deep = json.dumps(ASK).encode()[:-1] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert (await here.ask(PATH, deep)).status == 400
    assert engine.counts.started == 0


async def test_a_model_for_embeddings_does_not_answer_messages(room, engine):
    here = await room(a_route(a_replica("r1", engine.url), role=Role.EMBED))
    answer = await here.ask(PATH, ASK)
    assert answer.error["code"] == "wrong_role"
    assert PATH in answer.error["message"]


async def test_an_engines_error_keeps_its_status_and_when_to_come_back(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)))
    for status, kind in ((400, "invalid_request_error"), (429, "rate_limit_error"), (500, "api_error")):
        engine.fail(Fault.STATUS, arg=status)
        answer = await here.ask(PATH, STREAM)
        assert (answer.status, answer.error["type"]) == (status, kind)


@pytest.mark.parametrize("fault", [Fault.DIE, Fault.CUT, Fault.MALFORMED])
async def test_a_stream_that_breaks_ends_with_an_error_event(room, engine, fault):
    here = await room(a_route(a_replica("r1", engine.url)))
    engine.fail(fault, arg=3)
    answer = await here.ask(PATH, STREAM)
    assert answer.status == 200
    first, *_, last = events_of(answer.body)
    assert (first["type"], last["type"], last["error"]["type"]) == ("message_start", "error", "api_error")
    assert b"message_stop" not in answer.body


async def test_a_plain_answer_that_is_none_is_the_engines_fault(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)))
    engine.plain = lambda _: b'{"choices": []}'
    answer = await here.ask(PATH, ASK)
    assert (answer.status, answer.error["type"]) == (502, "api_error")


async def test_another_replica_is_asked_before_the_first_byte(room, engines):
    dead, alive = await engines(2)
    here = await room(a_route(a_replica("r1", dead.url), a_replica("r2", alive.url)))
    await dead.stop()
    for _ in range(4):
        assert message_of((await here.ask(PATH, STREAM)).body)["stop_reason"] == "end_turn"


@pytest.mark.parametrize("ask", [ASK, STREAM])
@pytest.mark.parametrize("kind", ["openai", "llamacpp"])
async def test_a_client_that_leaves_before_the_first_byte_frees_the_engine_at_once(room, engine, ask, kind):
    engine.fail(Fault.HANG)
    here = await room(a_route(a_replica("r1", engine.url, slots=1, kind=kind)))
    asking = asyncio.ensure_future(here.ask(PATH, ask))
    await engine.until(lambda counts: counts.started == 1)
    asking.cancel()
    await engine.until(lambda counts: counts.aborted == 1)
    await until(lambda: here.worker.counters.in_flight["tiny"] == 0)
    assert (await here.ask(PATH, ask)).status == 200


async def test_a_client_that_leaves_in_mid_stream_frees_the_engine_at_once(room, engine):
    engine.fail(Fault.STALL, arg=3)
    here = await room(a_route(a_replica("r1", engine.url, slots=1)))
    response = await here.start(PATH, STREAM)
    await anext(response.chunks())
    response.close()
    await engine.until(lambda counts: counts.aborted == 1)
    assert (await here.ask(PATH, ASK)).status == 200


async def test_it_is_counted_under_its_own_name_with_its_tokens(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)))
    await here.ask(PATH, STREAM)
    samples = {(one.name, *sorted(dict(one.labels).values())): one.value for one in here.worker.report().metrics}
    assert samples["llmgw_gateway_requests", "200", "messages", "tiny"] == 1
    assert samples["llmgw_gateway_tokens", "completion", "tiny"] == 8


async def test_whoever_waits_for_a_model_to_start_hears_pings(room, engine):
    starting = a_route(unavailable="it loads", hold_s=30)
    here = await room(starting, hold_comment_s=0.05)
    response = await here.start(PATH, STREAM)
    pieces = response.chunks()
    first = await anext(pieces)
    assert first.startswith(b": starting tiny: it loads\nevent: ping\n")
    here.change(a_route(a_replica("r1", engine.url)), keys=here.view.keys)
    assert message_of(first + b"".join([piece async for piece in pieces]))["stop_reason"] == "end_turn"


async def test_a_start_that_fails_under_pings_ends_with_an_error_event(room):
    here = await room(a_route(unavailable="it loads", hold_s=0.2), hold_comment_s=0.05)
    answer = await here.ask(PATH, STREAM)
    (only,) = events_of(answer.body)
    assert (only["type"], only["error"]["code"]) == ("error", "model_starting")


async def test_llamacpp_tells_the_tokens_of_the_prompt_from_the_first_word_on(room, engine):
    here = await room(a_route(a_replica("r1", engine.url, kind="llamacpp", context=64)))
    await here.ask(PATH, STREAM)
    await here.ask(PATH, ASK)
    streamed, plain = (json.loads(request.body) for request in engine.requests)
    assert streamed["timings_per_token"] is True
    assert "timings_per_token" not in plain


@pytest.mark.parametrize("stream", [False, True])
async def test_a_blocked_request_is_an_error_that_nobody_tries_again(tmp_path, stream):
    async with guard_room(tmp_path) as court:
        court.rules(rule(stage=Stage.INPUT, name="in"))
        asked = {**ASK, "stream": stream, "messages": [{"role": "user", "content": WORD}]}
        answer = await court.room.ask(PATH, asked)
        assert (answer.status, answer.error["code"]) == (400, BLOCKED)
        assert answer.headers[b"x-should-retry"] == b"false"
        assert answer.headers[b"x-llmgw-guard"].startswith(b"blocked")
        (entry,) = court.audit()
        assert entry.surface == "messages"


@pytest.mark.parametrize("place", ["system", "tools", "tool_use", "tool_result", "thinking", "document"])
async def test_every_text_that_reaches_the_model_is_judged(tmp_path, place):
    bad = {"type": "text", "text": WORD}
    call = {"type": "tool_use", "id": "t", "name": "look", "input": {"at": WORD if place == "tool_use" else "sea"}}
    thought = {"type": "thinking", "thinking": WORD if place == "thinking" else "hm", "signature": ""}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [bad] if place == "tool_result" else "red"}
    document = {"type": "document", "source": {"type": "text", "data": WORD if place == "document" else "rain"}}
    asked = {
        **ASK,
        "system": [bad] if place == "system" else "be kind",
        "tools": [{"name": "look", "input_schema": {"description": WORD if place == "tools" else "where"}}],
        "messages": [
            *ASK["messages"],
            {"role": "assistant", "content": [thought, call]},
            {"role": "user", "content": [result, document]},
        ],
    }
    async with guard_room(tmp_path) as court:
        court.rules(rule(stage=Stage.INPUT, pattern=WORD))
        assert (await court.room.ask(PATH, asked)).error["code"] == BLOCKED
        clean = json.loads(json.dumps(asked).replace(WORD, "fine"))
        assert (await court.room.ask(PATH, clean)).status == 200


async def test_an_answer_that_is_blocked_in_the_middle_is_a_refusal_and_what_was_open_is_closed(tmp_path):
    async with guard_room(tmp_path) as court:
        court.rules(rule(stage=Stage.OUTPUT))
        court.says(*["words that harm nobody "] * 60, WORD, "more")
        answer = await court.room.ask(PATH, STREAM)
        message = message_of(answer.body)
        assert message["stop_reason"] == "refusal"
        assert texts(message).startswith("words that harm nobody ")
        assert WORD.encode() not in answer.body


async def test_a_tool_call_that_is_blocked_is_a_refusal(tmp_path):
    call = {"index": 0, "id": "c", "function": {"name": "look", "arguments": json.dumps({"at": WORD})}}
    async with guard_room(tmp_path) as court:
        court.rules(rule(stage=Stage.OUTPUT))
        court.engine.script = [
            chunk("", role="assistant"),
            chunk("", tool_calls=[call]),
            chunk("", finish="stop"),
            DONE,
        ]
        answer = await court.room.ask(PATH, STREAM)
        assert message_of(answer.body)["stop_reason"] == "refusal"
        assert WORD.encode() not in answer.body


async def test_places_are_redacted_in_both_directions(tmp_path):
    async with guard_room(tmp_path) as court:
        court.rules(
            *(rule(name=f"r{stage}", personal_data=("email",), action=Action.REDACT, stage=stage) for stage in Stage)
        )
        court.says("write to ada@exa", "mple.org")
        asked = {**STREAM, "messages": [{"role": "user", "content": "I am ada@example.org"}]}
        assert texts(message_of((await court.room.ask(PATH, asked)).body)) == "write to [email]"
        (request,) = court.engine.requests
        assert json.loads(request.body)["messages"][0]["content"] == "I am [email]"
        assert json.loads(request.body)["stream_options"]["include_usage"] is True
