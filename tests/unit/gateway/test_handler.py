import asyncio

import pytest

from llmgw.schema.model import Role
from llmgw.testing.fake_engine import Fault
from llmgw.testing.gateway_room import a_replica, a_route, until

CHAT = "/v1/chat/completions"


async def test_no_key_and_a_wrong_key_are_refused(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)))
    for key in (None, "lk_ABCDEFGHtheRestOfI", "lk_ABCDEFGHtheRestOfItX"):
        answer = await here.ask("/v1/models", key=key)
        assert (answer.status, answer.error["code"], answer.error["param"]) == (401, "invalid_api_key", None)
        assert key is None or key.encode() not in answer.body


async def test_without_known_keys_nobody_is_let_in_and_the_answer_says_why(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)), keys=None)
    answer = await here.ask("/v1/models")
    assert (answer.status, answer.error["code"]) == (503, "keys_unknown")
    assert answer.headers[b"retry-after"]


async def test_a_key_that_is_revoked_is_refused_at_once(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)))
    assert (await here.chat()).status == 200
    here.change(a_route(a_replica("r1", engine.url)), keys=type(here.view.keys)(version=2, hash_key="05" * 32))
    assert (await here.chat()).status == 401


async def test_models_are_listed_and_told_one_by_one_slashes_included(room, engine):
    here = await room(a_route(a_replica("r1", engine.url), model="org/big"), a_route(model="tiny"))
    assert [model["id"] for model in (await here.ask("/v1/models")).json()["data"]] == ["org/big", "tiny"]
    for path in ("org/big", "org%2Fbig", "org%2fbig"):
        one = (await here.ask(f"/v1/models/{path}")).json()
        assert one == {"id": "org/big", "object": "model", "created": 1_700_000_000, "owned_by": "llmgw"}
    missing = await here.ask("/v1/models/org")
    assert (missing.status, missing.error["code"]) == (404, "model_not_found")


async def test_an_unknown_model_is_not_found(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)))
    answer = await here.chat(model="nope")
    assert (answer.status, answer.error["code"], answer.error["param"]) == (404, "model_not_found", "model")


async def test_broken_json_names_its_place(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)))
    answer = await here.ask(CHAT, b'{"model":"tiny",\n "messages": [x]}')
    assert answer.status == 400
    assert answer.error["code"] == "invalid_json"
    assert "line 2, column 15 (byte 31)" in answer.error["message"]


async def test_a_wrong_type_names_its_field(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)))
    for field, value in (("stream", "yes"), ("max_tokens", "5"), ("model", 3)):
        answer = await here.ask(CHAT, {"model": "tiny", "messages": [], field: value})
        assert (answer.status, answer.error["param"]) == (400, field)
    assert (await here.ask(CHAT, b"[]")).status == 400
    assert (await here.ask(CHAT, {"messages": []})).error["param"] == "model"
    assert engine.counts.started == 0


async def test_other_methods_and_paths_are_refused_in_the_same_shape(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)))
    wrong = await here.ask(CHAT)
    assert (wrong.status, wrong.headers[b"allow"]) == (405, b"POST")
    nowhere = await here.ask("/v1/nowhere", {})
    assert (nowhere.status, nowhere.error["code"]) == (404, "unknown_url")
    assert (await here.ask("/healthz", key=None)).status == 200


async def test_a_chat_request_to_an_embedding_model_is_told_where_to_go(room, engine):
    here = await room(a_route(a_replica("r1", engine.url), role=Role.EMBED))
    answer = await here.chat()
    assert (answer.status, answer.error["code"]) == (400, "wrong_role")
    assert "/v1/embeddings" in answer.error["message"]
    assert (await here.ask("/v1/embeddings", {"model": "tiny", "input": "x"})).json()["data"][0]["embedding"]


async def test_a_model_without_replicas_says_why_and_when_to_come_back(room):
    here = await room(a_route(unavailable="parked after 5 failed starts: no such file"))
    answer = await here.chat()
    assert (answer.status, answer.error["code"]) == (503, "model_unavailable")
    assert "parked after 5 failed starts" in answer.error["message"]
    assert 0 < int(answer.headers[b"retry-after"]) <= 60


async def test_every_answer_carries_a_request_id_and_a_harmless_one_is_kept(room, engine):
    here = await room(a_route(a_replica("r1", engine.url)))
    assert (await here.chat()).headers[b"x-request-id"].startswith(b"req_")
    assert (await here.ask("/v1/nowhere")).headers[b"x-request-id"]
    kept = await here.ask("/v1/models", headers=[(b"x-request-id", b"my-id.1")])
    assert kept.headers[b"x-request-id"] == b"my-id.1"
    replaced = await here.ask("/v1/models", headers=[(b"x-request-id", b'a"b')])
    assert replaced.headers[b"x-request-id"] != b'a"b'


async def test_the_clients_key_never_reaches_the_engine(room, engine):
    engine.key = "engine-key"
    here = await room(a_route(a_replica("r1", engine.url, key="engine-key")))
    assert (await here.chat()).status == 200
    (request,) = engine.requests
    assert request.headers["authorization"] == "Bearer engine-key"
    assert "lk_" not in str(request.headers)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"model": "tiny", "messages": []}),
        (CHAT, {"model": "tiny", "messages": [], "stream": True}),
        ("/v1/completions", {"model": "tiny", "prompt": "x"}),
        ("/v1/completions", {"model": "tiny", "prompt": "x", "stream": True}),
        ("/v1/embeddings", {"model": "tiny", "input": "x"}),
    ],
)
@pytest.mark.parametrize("kind", ["openai", "llamacpp"])
async def test_a_client_that_leaves_before_the_first_byte_frees_the_engine_at_once(room, engine, path, body, kind):
    engine.fail(Fault.HANG)
    role = Role.EMBED if "input" in body else Role.CHAT
    here = await room(a_route(a_replica("r1", engine.url, slots=1, kind=kind), role=role))
    asking = asyncio.ensure_future(here.ask(path, body))
    await engine.until(lambda counts: counts.started == 1)
    asking.cancel()
    await engine.until(lambda counts: counts.aborted == 1, deadline_s=0.25)
    await until(lambda: here.worker.counters.in_flight["tiny"] == 0)
    assert (await here.ask(path, body)).status == 200  # its slot is free again


async def test_a_client_that_leaves_in_mid_stream_frees_the_engine_at_once(room, engine):
    engine.fail(Fault.STALL, arg=3)
    here = await room(a_route(a_replica("r1", engine.url, slots=1)))
    response = await here.start(CHAT, {"model": "tiny", "messages": [], "stream": True})
    await anext(response.chunks())
    response.close()
    await engine.until(lambda counts: counts.aborted == 1, deadline_s=0.25)
    assert (await here.chat()).status == 200


async def test_a_client_that_leaves_the_queue_is_forgotten(room, engine):
    engine.fail(Fault.HANG)
    here = await room(a_route(a_replica("r1", engine.url, slots=1)))
    first = asyncio.ensure_future(here.chat())
    await engine.until(lambda counts: counts.started == 1)
    second = asyncio.ensure_future(here.chat())
    await until(lambda: here.worker.admission.waiting("tiny") == 1)
    second.cancel()
    await until(lambda: here.worker.admission.waiting("tiny") == 0)
    first.cancel()
    await engine.until(lambda counts: counts.aborted == 1)
    assert (await here.chat()).status == 200
    assert engine.counts.started == 2


async def test_a_client_that_left_is_counted_as_499(room, engine):
    engine.fail(Fault.HANG)
    here = await room(a_route(a_replica("r1", engine.url)))
    asking = asyncio.ensure_future(here.chat())
    await engine.until(lambda counts: counts.started == 1)
    asking.cancel()
    await engine.until(lambda counts: counts.aborted == 1)
    await until(lambda: any(dict(sample.labels).get("status") == "499" for sample in here.worker.report().metrics))
