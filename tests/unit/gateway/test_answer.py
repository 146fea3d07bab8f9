import json

import pytest

from llmgw.testing.fake_engine import Fault
from llmgw.testing.gateway_room import a_replica, a_route, until

CHAT = "/v1/chat/completions"
ASK = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


def events(body: bytes) -> list[str]:
    return [event for event in body.decode().split("\n\n") if event]


def said(body: bytes) -> str:
    chunks = [json.loads(event.removeprefix("data: ")) for event in events(body) if "[DONE]" not in event]
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk.get("choices", ()))


@pytest.mark.parametrize("kind", ["openai", "llamacpp"])
async def test_a_stream_passes_untouched_but_for_the_usage_nobody_asked_for(room, engine, kind):
    here = await room(a_route(a_replica("r1", engine.url, kind=kind)))
    without = await here.ask(CHAT, {**ASK, "stream": True})
    assert b'"usage":{' not in without.body
    assert said(without.body) == " 1 2 3 4 5 6 7 8"
    assert without.body.endswith(b"data: [DONE]\n\n")
    asked = await here.ask(CHAT, {**ASK, "stream": True, "stream_options": {"include_usage": True}})
    assert b'"usage":{' in asked.body
    sent = [json.loads(request.body) for request in engine.requests]
    assert all(body["stream_options"]["include_usage"] for body in sent)


@pytest.mark.parametrize("fault", [Fault.SPLIT, Fault.CRLF, Fault.COMMENTS])
async def test_a_stream_may_be_cut_anywhere_and_written_otherwise(room, engine, fault):
    engine.fail(fault)
    here = await room(a_route(a_replica("r1", engine.url)))
    answer = await here.ask(CHAT, {**ASK, "stream": True})
    body = answer.body.replace(b"\r\n", b"\n").replace(b": still here\n\n", b"")
    assert said(body) == " 1 2 3 4 5 6 7 8"
    assert b'"usage":{' not in body
    samples = {(one.name, dict(one.labels).get("direction")): one.value for one in here.worker.report().metrics}
    assert samples["llmgw_gateway_tokens", "completion"] == 8


@pytest.mark.parametrize("fault", [Fault.DIE, Fault.CUT])
async def test_an_engine_that_dies_in_mid_stream_is_told_in_a_well_formed_event(room, engine, fault):
    engine.fail(fault, arg=4)
    here = await room(a_route(a_replica("r1", engine.url)))
    answer = await here.ask(CHAT, {**ASK, "stream": True})
    assert answer.status == 200
    last = json.loads(events(answer.body)[-1].removeprefix("data: "))
    assert last["error"]["code"] == "upstream_error"
    assert said(answer.body) == " 1 2 3"
    await until(lambda: "502" in str(here.worker.report().metrics))


async def test_an_engine_that_stalls_in_mid_stream_is_given_up(room, engine):
    engine.fail(Fault.STALL, arg=4)
    here = await room(a_route(a_replica("r1", engine.url)), idle_timeout_s=0.05)
    answer = await here.ask(CHAT, {**ASK, "stream": True})
    assert json.loads(events(answer.body)[-1].removeprefix("data: "))["error"]["code"] == "upstream_timeout"
    await engine.until(lambda counts: counts.aborted == 1)


@pytest.mark.parametrize("kind", ["openai", "llamacpp"])
@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
@pytest.mark.parametrize("more", [{}, {"n": 3}, {"stream": False}, {"max_tokens": 2}])
async def test_a_plain_answer_is_what_the_engine_would_have_said(room, engine, kind, path, more):
    here = await room(a_route(a_replica("r1", engine.url, kind=kind)))
    body = {**ASK, "prompt": "hi", **more}
    answer = (await here.ask(path, body)).json()
    here.change(a_route(a_replica("r1", engine.url, kind="openai")))
    direct = (await here.ask(path, body)).json()
    for one in (answer, direct):
        for name in ("id", "created"):
            one.pop(name)
        for choice in one["choices"]:
            choice["logprobs"] = choice.get("logprobs")
    assert answer == direct
    assert ("stream" in json.loads(engine.requests[0].body)) == (kind == "llamacpp" or "stream" in more)


async def test_a_plain_answer_that_breaks_in_the_middle_is_an_error_not_half_an_answer(room, engine):
    for kind in ("openai", "llamacpp"):
        engine.fail(Fault.DIE, arg=4)
        here = await room(a_route(a_replica("r1", engine.url, kind=kind)))
        answer = await here.ask(CHAT, ASK)
        assert (answer.status, answer.error["code"]) == (502, "upstream_error")


async def test_an_error_inside_the_stream_becomes_the_status_of_a_plain_answer(room, engine):
    engine.fail(Fault.STREAM_ERROR, arg=2)
    here = await room(a_route(a_replica("r1", engine.url, kind="llamacpp")))
    answer = await here.ask(CHAT, ASK)
    assert (answer.status, answer.error["message"]) == (500, "Compute error.")


async def test_a_plain_request_that_names_no_limit_gets_the_slots_context(room, engine):
    here = await room(a_route(a_replica("r1", engine.url, kind="llamacpp", context=4096)))
    await here.ask(CHAT, ASK)
    await here.ask(CHAT, {**ASK, "max_completion_tokens": 5})
    first, second = (json.loads(request.body) for request in engine.requests)
    assert first["max_tokens"] == 4096
    assert "max_tokens" not in second


async def test_fields_the_gateway_does_not_know_pass_on(room, engine):
    here = await room(a_route(a_replica("r1", engine.url, kind="llamacpp")))
    await here.ask(CHAT, {**ASK, "grammar": 'root ::= "x"', "logit_bias": {"1": -1}})
    sent = json.loads(engine.requests[0].body)
    assert (sent["grammar"], sent["logit_bias"]) == ('root ::= "x"', {"1": -1})


async def test_usage_of_plain_and_streamed_answers_is_counted(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)))
    await here.ask(CHAT, ASK)
    await here.ask(CHAT, {**ASK, "stream": True})
    samples = {(one.name, dict(one.labels).get("direction")): one.value for one in here.worker.report().metrics}
    assert samples["llmgw_gateway_tokens", "completion"] == 16
    assert samples["llmgw_gateway_time_to_first_token_seconds_count", None] == 1
