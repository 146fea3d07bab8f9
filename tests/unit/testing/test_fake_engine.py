import asyncio
import json
import subprocess
import sys
import urllib.request

import aiohttp
import pytest

from llmgw.testing.fake_engine import FakeEngine, Fault

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
STREAM = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
COUNTED = " 1 2 3 4 5 6 7 8"


@pytest.fixture
async def engine():
    async with FakeEngine(model="m") as running:
        yield running


@pytest.fixture
async def client(engine):
    async with aiohttp.ClientSession(engine.url) as session:
        yield session


async def post(client, body, path="/v1/chat/completions", **options):
    async with client.post(path, json=body, **options) as answer:
        return answer.status, await answer.read()


async def collect(answer, got: bytearray) -> None:
    async for piece in answer.content.iter_any():
        got += piece


def chunks(raw: bytes) -> list[dict]:
    events = [event for event in raw.replace(b"\r\n", b"\n").split(b"\n\n") if event]
    data = [line[6:] for event in events for line in event.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(one) for one in data if one != b"[DONE]"]


def text(raw: bytes) -> str:
    return "".join(
        choice["delta"].get("content") or "" for chunk in chunks(raw) for choice in chunk["choices"] if choice
    )


async def test_a_plain_chat_counts_and_says_its_usage(client):
    status, raw = await post(client, {**CHAT, "max_tokens": 3})
    answer = json.loads(raw)
    assert status == 200
    assert answer["choices"][0]["message"]["content"] == " 1 2 3"
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 3
    assert answer["usage"]["prompt_tokens"] == 5


async def test_a_stream_carries_role_count_finish_usage_and_done(client):
    _, raw = await post(client, STREAM)
    parts = chunks(raw)
    assert parts[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert text(raw) == COUNTED
    assert parts[-2]["choices"][0]["finish_reason"] == "stop"
    assert parts[-1]["choices"] == []
    assert parts[-1]["usage"]["completion_tokens"] == 8
    assert raw.endswith(b"data: [DONE]\n\n")


async def test_usage_comes_only_when_asked_for(client):
    _, raw = await post(client, {**CHAT, "stream": True})
    assert all("usage" not in part for part in chunks(raw))


async def test_several_choices_are_told_apart_by_their_index(client):
    _, raw = await post(client, {**STREAM, "n": 2, "max_tokens": 2})
    indexes = [choice["index"] for part in chunks(raw) for choice in part["choices"]]
    assert sorted(set(indexes)) == [0, 1]
    _, raw = await post(client, {**CHAT, "n": 2})
    assert len(json.loads(raw)["choices"]) == 2


async def test_completions_and_embeddings_answer_in_their_own_shapes(client):
    _, raw = await post(client, {"model": "m", "prompt": "x", "max_tokens": 2}, "/v1/completions")
    assert json.loads(raw)["choices"][0]["text"] == " 1 2"
    _, raw = await post(client, {"model": "m", "input": ["a", "b", "a"]}, "/v1/embeddings")
    first, second, third = (one["embedding"] for one in json.loads(raw)["data"])
    assert first == third != second
    assert len(first) == 8


async def test_a_key_guards_all_but_health():
    async with FakeEngine(key="secret") as engine, aiohttp.ClientSession(engine.url) as client:
        status, raw = await post(client, CHAT)
        assert (status, json.loads(raw)["error"]["type"]) == (401, "authentication_error")
        async with client.get("/v1/models") as answer:
            assert answer.status == 401
        async with client.get("/health") as answer:
            assert answer.status == 200
        status, _ = await post(client, CHAT, headers={"Authorization": "Bearer secret"})
        assert status == 200
        assert (engine.counts.unauthorized, engine.counts.started) == (2, 1)


@pytest.mark.parametrize("fault", [Fault.SPLIT, Fault.CRLF, Fault.COMMENTS, Fault.SLOW])
async def test_harmless_oddities_lose_nothing(fault, engine, client):
    engine.fail(fault, arg=0.001)
    _, raw = await post(client, STREAM)
    assert text(raw) == COUNTED
    assert engine.counts.finished == 1


@pytest.mark.parametrize("fault", [Fault.DIE, Fault.CUT])
async def test_a_broken_stream_breaks_after_the_ordered_chunks(fault, engine, client):
    engine.fail(fault, arg=3)
    got = bytearray()
    async with client.post("/v1/chat/completions", json=STREAM) as answer:
        with pytest.raises(aiohttp.ClientError):
            await collect(answer, got)
    assert text(bytes(got)) == " 1 2"
    assert (engine.counts.faulted, engine.counts.finished) == (1, 0)


async def test_a_plain_answer_dies_in_its_middle(engine, client):
    engine.fail(Fault.DIE)
    with pytest.raises(aiohttp.ClientError):
        await post(client, CHAT)


async def test_a_dropped_request_gets_no_byte(engine, client):
    engine.fail(Fault.DROP)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await post(client, CHAT)


@pytest.mark.parametrize("status", [401, 429, 500, 503])
async def test_an_ordered_status_is_answered_so_many_times(status, engine, client):
    engine.fail(Fault.STATUS, arg=status, times=2)
    assert [(await post(client, CHAT))[0] for _ in range(3)] == [status, status, 200]
    assert engine.counts.faulted == 2


async def test_429_says_when_to_come_back(engine, client):
    engine.fail(Fault.STATUS, arg=429)
    async with client.post("/v1/chat/completions", json=CHAT) as answer:
        assert answer.headers["retry-after"] == "1"


async def test_missing_parts_of_a_stream_are_missing(engine, client):
    engine.fail(Fault.NO_DONE)
    _, raw = await post(client, STREAM)
    assert b"[DONE]" not in raw
    engine.fail(Fault.NO_USAGE)
    _, raw = await post(client, STREAM)
    assert b"usage" not in raw
    engine.fail(Fault.MALFORMED, arg=2)
    _, raw = await post(client, STREAM)
    with pytest.raises(ValueError, match="Expecting"):
        chunks(raw)
    engine.fail(Fault.STREAM_ERROR, arg=2)
    _, raw = await post(client, STREAM)
    assert chunks(raw)[-1]["error"]["code"] == 500


@pytest.mark.parametrize(("fault", "arg"), [(Fault.HANG, 0), (Fault.STALL, 2)])
async def test_a_client_that_leaves_a_stuck_engine_is_noticed(fault, arg, engine, client):
    engine.fail(fault, arg=arg)
    task = asyncio.create_task(post(client, STREAM))
    await engine.until(lambda counts: counts.started == 1)
    assert engine.open_requests == 1
    task.cancel()
    await engine.until(lambda counts: counts.aborted == 1)
    assert engine.open_requests == 0
    assert engine.aborted_at is not None


async def test_until_gives_up_with_the_counts(engine):
    with pytest.raises(TimeoutError, match="started=0"):
        await engine.until(lambda counts: counts.started == 1, deadline_s=0.01)


async def test_a_connection_is_kept_and_an_idle_one_can_be_made_stale(engine, client):
    await post(client, CHAT)
    await post(client, CHAT)
    assert engine.connections == 1
    engine.close_idle()
    await asyncio.sleep(0.01)
    assert engine.connections == 0


async def test_requests_of_one_connection_are_answered_in_order(engine):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(engine.url.rpartition(":")[2]))
    for limit in (1, 2):
        body = json.dumps({**CHAT, "max_tokens": limit}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
    got = b""
    while got.count(b'"usage"') < 2:
        got += await reader.read(4096)
    writer.close()
    assert got.index(b'" 1"') < got.index(b'" 1 2"')


async def test_a_stopped_engine_refuses_and_comes_back_on_its_port(engine, client):
    url = engine.url
    await engine.stop()
    with pytest.raises(aiohttp.ClientError):
        await post(client, CHAT)
    await engine.start()
    assert engine.url == url
    assert (await post(client, CHAT))[0] == 200


async def test_a_script_replaces_the_count(engine, client):
    engine.script = [b"data: one\n\n", b"data: two\n\n"]
    assert (await post(client, STREAM))[1] == b"data: one\n\ndata: two\n\n"


async def test_bad_json_is_the_clients_fault(engine, client):
    async with client.post("/v1/chat/completions", data=b"{") as answer:
        assert answer.status == 400


def test_it_runs_as_a_process_and_is_steered_over_http():
    argv = [sys.executable, "-m", "llmgw.testing.fake_engine", "--model", "m", "--tokens", "3"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().removeprefix("ready ").strip()
            order = urllib.request.Request(f"{url}/__control", json.dumps({"tokens": 2}).encode())
            urllib.request.urlopen(order, timeout=5).close()
            chat = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(CHAT).encode())
            with urllib.request.urlopen(chat, timeout=5) as answer:
                assert json.load(answer)["choices"][0]["message"]["content"] == " 1 2"
            with urllib.request.urlopen(f"{url}/__counts", timeout=5) as answer:
                assert json.load(answer)["finished"] == 1
        finally:
            process.kill()
