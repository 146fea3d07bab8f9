import asyncio

import pytest

from llmgw.schema.model import Role
from llmgw.testing.fake_engine import Fault
from llmgw.testing.gateway_room import a_replica, a_route

MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
LOOK = {"name": "look", "input_schema": {"type": "object"}}
ASK = {
    "model": "tiny",
    "system": "be kind",
    "tools": [LOOK],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
}


@pytest.mark.parametrize(("kind", "path"), [("llamacpp", "/v1/chat/completions/input_tokens"), ("vllm", "/tokenize")])
async def test_the_engine_counts_what_it_would_be_sent(room, engine, kind, path):
    here = await room(a_route(a_replica("r1", engine.url, kind=kind)))
    counted = await here.ask(COUNT, ASK)
    answered = (await here.ask(MESSAGES, {**ASK, "max_tokens": 1})).json()
    assert counted.status == 200
    assert counted.json() == {"input_tokens": answered["usage"]["input_tokens"]}
    first, second = engine.requests
    assert (first.path, second.path) == (path, "/v1/chat/completions")


async def test_it_takes_no_slot_and_waits_for_none(room, engine):
    here = await room(a_route(a_replica("r1", engine.url, kind="llamacpp", slots=1)))
    engine.fail(Fault.HANG)
    asking = asyncio.ensure_future(here.chat())
    await engine.until(lambda counts: counts.started == 1)
    assert (await here.ask(COUNT, ASK)).status == 200
    asking.cancel()
    await engine.until(lambda counts: counts.aborted == 1)


async def test_an_engine_that_cannot_count_says_what_to_do_and_no_number(room, engine):
    for kind in ("sglang", "openai"):
        here = await room(a_route(a_replica("r1", engine.url, kind=kind)))
        answer = await here.ask(COUNT, ASK)
        assert (answer.status, answer.error["type"], answer.error["code"]) == (501, "api_error", "cannot_count_tokens")
        assert kind in answer.error["message"]
        assert "'max_tokens': 1" in answer.error["message"]
        assert answer.headers[b"x-should-retry"] == b"false"
    assert engine.counts.started == 0


async def test_an_engine_too_old_to_count_is_told_from_a_model_that_is_not_there(room, engine):
    here = await room(a_route(a_replica("r1", engine.url, kind="llamacpp")))
    engine.fail(Fault.STATUS, arg=404)
    assert (await here.ask(COUNT, ASK)).error["code"] == "cannot_count_tokens"
    assert (await here.ask(COUNT, {**ASK, "model": "nope"})).error["code"] == "model_not_found"


async def test_another_replica_counts_where_one_is_dead(room, engines):
    dead, alive = await engines(2)
    here = await room(a_route(*(a_replica(one.url, one.url, kind="llamacpp") for one in (dead, alive))))
    await dead.stop()
    for _ in range(3):
        assert (await here.ask(COUNT, ASK)).status == 200


@pytest.mark.parametrize(
    ("fault", "arg", "status"),
    [(Fault.STATUS, 400, 400), (Fault.STATUS, 401, 502), (Fault.STATUS, 500, 500), (Fault.DROP, 0, 502)],
)
async def test_what_goes_wrong_is_told_with_its_status(room, engine, fault, arg, status):
    here = await room(a_route(a_replica("r1", engine.url, kind="llamacpp")))
    engine.fail(fault, arg=arg, times=2)
    answer = await here.ask(COUNT, ASK)
    assert (answer.status, answer.json()["type"]) == (status, "error")


async def test_an_answer_without_a_number_is_the_engines_fault(room, engine):
    here = await room(a_route(a_replica("r1", engine.url, kind="llamacpp")))
    engine.fail(Fault.MALFORMED)
    assert (await here.ask(COUNT, ASK)).status == 502


async def test_requests_are_read_as_strictly_as_messages(room, engine):
    here = await room(
        a_route(a_replica("r1", engine.url, kind="llamacpp")),
        a_route(a_replica("r2", engine.url, kind="llamacpp"), model="embed", role=Role.EMBED),
        a_route(model="gone", unavailable="no node has room"),
    )
    assert (await here.ask(COUNT, {**ASK, "messages": 3})).error["param"] == "messages"
    assert (await here.ask(COUNT, {**ASK, "model": "embed"})).error["code"] == "wrong_role"
    assert (await here.ask(COUNT, {**ASK, "model": "gone"})).status == 503
    assert (await here.ask(COUNT, ASK, key=None)).status == 401
    assert (await here.ask(COUNT)).status == 405


async def test_a_client_that_leaves_is_forgotten(room, engine):
    here = await room(a_route(a_replica("r1", engine.url, kind="llamacpp")))
    engine.fail(Fault.HANG)
    asking = asyncio.ensure_future(here.ask(COUNT, ASK))
    await engine.until(lambda counts: counts.started == 1)
    asking.cancel()
    await engine.until(lambda counts: counts.aborted == 1)


async def test_it_is_counted_under_its_own_name(room, engine):
    here = await room(a_route(a_replica("r1", engine.url, kind="llamacpp")))
    await here.ask(COUNT, ASK)
    labels = [dict(one.labels) for one in here.worker.report().metrics if one.name == "llmgw_gateway_requests"]
    assert labels == [{"model": "tiny", "route": "count_tokens", "status": "200"}]
