import asyncio
import json

import pytest

from llmgw.schema.door import DoorReading, DoorShard, DoorUpdate

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def offer(shards, upstream, *paths, key="le_secret"):
    shard = DoorShard(
        id="r1.0", model="m", endpoint=f"http://127.0.0.1:{upstream.port}", key=key, paths=paths or ("/v1/completions",)
    )
    shards.update(DoorUpdate(shards=(shard,)))


def post(path, body=b"{}", extra=b""):
    return b"POST %b HTTP/1.1\r\nHost: d\r\n%bContent-Length: %d\r\n\r\n%b" % (path, extra, len(body), body)


async def test_a_request_reaches_the_engine_with_the_engines_key_instead_of_the_callers(shards, engine, connect):
    seen = []

    async def script(line):
        seen.append(await line.request())
        line.write(b"HTTP/1.1 201 Created\r\nX-Engine: e\r\nContent-Length: 2\r\n\r\nok")
        await line.peer_left()

    offer(shards, await engine(script))
    client = await connect()
    extra = b"Authorization: Bearer other\r\nX-Api-Key: other\r\nCookie: other\r\nX-Request-Id: 7\r\n"
    await client.send(post(b"/shards/r1.0/v1/completions?a=b", b'{"x":1}', extra))
    status, headers, body = await client.answer()

    assert (status, headers["x-engine"], body) == (201, "e", b"ok")
    head, sent = seen[0]
    assert sent == b'{"x":1}'
    assert head.startswith(b"POST /v1/completions?a=b HTTP/1.1\r\n")
    assert b"authorization: Bearer le_secret\r\n" in head
    assert b"x-request-id: 7\r\n" in head
    assert b"other" not in head


async def test_a_stream_comes_through_piece_by_piece(shards, engine, connect):
    gate = asyncio.Event()

    async def script(line):
        await line.request()
        line.write(CHUNKED + b"3\r\none\r\n")
        await gate.wait()
        line.write(b"3\r\ntwo\r\n0\r\n\r\n")
        await line.peer_left()

    offer(shards, await engine(script))
    client = await connect()
    await client.send(post(b"/shards/r1.0/v1/completions"))
    await client.head()
    pieces = []
    async for piece in client.chunks():
        pieces.append(piece)
        gate.set()

    assert pieces == [b"one", b"two"]


@pytest.mark.parametrize("answered", [b"", CHUNKED + b"1\r\na\r\n"], ids=["before the answer", "within the answer"])
async def test_a_caller_that_leaves_closes_the_engines_connection(shards, engine, connect, answered):
    asked = asyncio.Event()

    async def script(line):
        await line.request()
        line.write(answered)
        asked.set()
        await line.peer_left()

    started = await engine(script)
    offer(shards, started)
    client = await connect()
    await client.send(post(b"/shards/r1.0/v1/completions"))
    await asked.wait()
    if answered:
        await client.head()
    client.writer.close()

    await asyncio.wait_for(started.left.wait(), 0.25)


@pytest.mark.parametrize("answered", [b"", CHUNKED + b"1\r\na\r\n"], ids=["before the answer", "within the answer"])
async def test_a_caller_that_left_hears_when_the_engine_let_go(shards, engine, connect, answered):
    go = asyncio.Event()

    async def script(line):
        await line.request()
        line.write(answered)
        await line.peer_left()
        await go.wait()

    started = await engine(script)
    offer(shards, started)
    client = await connect()
    await client.send(post(b"/shards/r1.0/v1/completions"))
    if answered:
        await client.head()
    else:
        await asyncio.sleep(0.01)
    client.writer.write_eof()
    await asyncio.wait_for(started.left.wait(), 5)
    told = asyncio.ensure_future(asyncio.wait({asyncio.ensure_future(client.rest())}))
    await asyncio.sleep(0.01)

    assert not told.done()
    go.set()
    await asyncio.wait_for(told, 5)


REFUSED = {
    b"/shards/r1.0/metrics": "path_not_allowed",
    b"/shards/r1.0/v1/completions/": "path_not_allowed",
    b"/shards/r1.0//v1/completions": "path_not_allowed",
    b"/shards/r1.0/v1/%63ompletions": "path_not_allowed",
    b"/shards/r1.0/v1/x/../completions": "path_not_allowed",
    b"/shards/r1.0": "path_not_allowed",
    b"/shards/r9.0/v1/completions": "unknown_shard",
    b"/shards/": "unknown_shard",
    b"/v1/completions": "not_found",
    b"/": "not_found",
}


@pytest.mark.parametrize(("path", "code"), REFUSED.items())
async def test_nothing_but_a_shards_own_paths_is_let_through(shards, engine, connect, path, code):
    async def script(line):
        await line.request()

    started = await engine(script)
    offer(shards, started)
    client = await connect()
    await client.send(post(path))
    status, _, body = await client.answer()

    # 503 sends a gateway to another replica; a 404 would end up with its client.
    assert (status, json.loads(body)["error"]["code"]) == (503 if code == "unknown_shard" else 404, code)
    assert started.connections == 0


async def test_a_shard_that_was_taken_away_is_no_longer_let_through(shards, engine, connect):
    async def script(line):
        await line.request()

    offer(shards, await engine(script))
    shards.update(DoorUpdate())
    client = await connect()
    await client.send(post(b"/shards/r1.0/v1/completions"))

    assert (await client.answer())[0] == 503


async def test_other_methods_are_refused(connect):
    client = await connect()
    await client.send(b"DELETE /shards/r1.0/v1/completions HTTP/1.1\r\nHost: d\r\n\r\n")

    assert (await client.answer())[0] == 405


async def test_an_engine_that_is_gone_is_502_and_the_key_stays_untold(shards, engine, connect):
    async def script(line):
        await line.request()

    started = await engine(script)
    offer(shards, started)
    await started.stop()
    client = await connect()
    await client.send(post(b"/shards/r1.0/v1/completions"))
    status, _, body = await client.answer()

    assert (status, json.loads(body)["error"]["code"]) == (502, "upstream_error")
    assert b"le_secret" not in body


async def test_stats_are_the_last_readings_with_their_age(shards, clock, connect):
    shards.update(DoorUpdate(readings=(DoorReading(shard="r1.0", age_s=0.5, values={"requests_processing": 2}),)))
    clock.advance(3)
    client = await connect()
    await client.send(b"GET /stats HTTP/1.1\r\nHost: d\r\n\r\n")
    _, _, body = await client.answer()

    assert json.loads(body) == {"readings": [{"shard": "r1.0", "age_s": 3.5, "values": {"requests_processing": 2.0}}]}


async def test_health_says_how_many_engines_there_are(connect):
    client = await connect()
    await client.send(b"GET /healthz HTTP/1.1\r\nHost: d\r\n\r\n")

    assert json.loads((await client.answer())[2]) == {"status": "ok", "shards": 0}
