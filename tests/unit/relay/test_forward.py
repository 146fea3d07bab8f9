import asyncio

import pytest

from llmgw.relay.errors import ClientGone, UpstreamBroken, UpstreamTimeout
from llmgw.relay.forward import pipe

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.fixture
def piping(relay, upstream, pool):
    """Give a function that starts relay and upstream; what `pipe` raised is put into `outcome`."""

    async def start(script, *, transform=None, method="GET", on_error=None, **limits):
        started = await upstream(script)
        started.outcome = asyncio.get_running_loop().create_future()

        async def handler(exchange):
            response = await pool.request(
                started.endpoint, method=method, path="/", headers=[], body=b"", first_byte_timeout_s=5
            )
            try:
                await pipe(response, exchange, headers=response.headers, transform=transform, idle_timeout_s=30)
            except BaseException as error:
                started.outcome.set_result(error)
                if on_error is None:
                    raise
                on_error(exchange)
            else:
                started.outcome.set_result(None)

        return await relay(handler, **limits), started

    return start


async def test_a_stream_is_forwarded_piece_by_piece_and_both_connections_live_on(piping):
    gate = asyncio.Event()

    async def script(line):
        while True:
            await line.request()
            line.write(CHUNKED + chunk(b"one"))
            await gate.wait()
            line.write(chunk(b"two") + chunk(b"three"))
            line.write(b"0\r\n\r\n")

    served, started = await piping(script)
    client = await served.connect()
    await client.send(GET)
    status, headers = await client.head()
    pieces = []
    async for piece in client.chunks():
        pieces.append(piece)
        gate.set()

    assert (status, headers["x-a"], headers["transfer-encoding"]) == (200, "1", "chunked")
    assert pieces[0] == b"one"
    assert b"".join(pieces) == b"onetwothree"
    assert await started.outcome is None
    started.outcome = asyncio.get_running_loop().create_future()
    await client.send(GET)
    assert (await client.answer())[2] == b"onetwothree"
    assert started.connections == 1


async def test_the_declared_length_is_kept(piping):
    async def script(line):
        await line.request()
        line.write(b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nab")
        await asyncio.sleep(0.01)
        line.write(b"cd")
        await line.peer_left()

    served, _ = await piping(script)
    status, headers, body = await served.ask(GET)

    assert (status, headers["content-length"], body) == (201, "4", b"abcd")


async def test_a_client_of_http_1_0_gets_a_stream_that_ends_with_the_connection(piping):
    async def script(line):
        await line.request()
        line.write(CHUNKED + chunk(b"ab"))
        await asyncio.sleep(0.01)
        line.write(chunk(b"cd") + b"0\r\n\r\n")
        await line.peer_left()

    served, _ = await piping(script)
    _, headers, body = await served.ask(b"GET / HTTP/1.0\r\n\r\n")

    assert (headers["connection"], body) == ("close", b"abcd")


async def test_an_answer_that_ends_with_the_upstreams_connection_is_whole(piping):
    async def script(line):
        await line.request()
        line.write(b"HTTP/1.1 200 OK\r\n\r\nab")
        await asyncio.sleep(0.01)
        line.write(b"cd")

    served, _ = await piping(script)

    assert (await served.ask(GET))[2] == b"abcd"


async def test_head_is_forwarded_with_its_length(piping):
    async def script(line):
        await line.request()
        line.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        await line.peer_left()

    served, _ = await piping(script, method="HEAD")
    client = await served.connect()
    await client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")

    assert (await client.head())[1]["content-length"] == "5"


async def test_a_transform_may_hold_back_and_gives_the_rest_at_the_end(piping):
    held = []

    def transform(piece):
        if not piece:
            return b"<" + b"".join(held) + b">"
        held.append(piece)
        return b"" if piece.startswith(b"-") else piece.upper()

    async def script(line):
        await line.request()
        line.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
        await asyncio.sleep(0.01)
        line.write(b"-c")
        await line.peer_left()

    served, _ = await piping(script, transform=transform)
    _, headers, body = await served.ask(GET)

    assert "content-length" not in headers
    assert body == b"AB<ab-c>"


async def test_an_error_of_the_transform_comes_out_and_closes_the_upstream(piping):
    def transform(piece):
        raise KeyError(piece)

    async def script(line):
        await line.request()
        line.write(CHUNKED + chunk(b"ab"))
        await line.peer_left()

    served, started = await piping(script, transform=transform)
    client = await served.connect()
    await client.send(GET)

    await asyncio.wait_for(started.left.wait(), 5)
    assert isinstance(await started.outcome, KeyError)
    await client.head()
    assert await client.rest() == b""


@pytest.mark.parametrize("how", ["close", "reset", "half-close"])
async def test_a_client_that_leaves_closes_the_upstream(piping, how):
    async def script(line):
        await line.request()
        line.write(CHUNKED + chunk(b"ab"))
        await line.peer_left()

    served, started = await piping(script)
    client = await served.connect()
    await client.send(GET)
    await client.head()
    if how == "reset":
        client.reset()
    elif how == "close":
        client.writer.close()
    else:
        client.writer.write_eof()

    await asyncio.wait_for(started.left.wait(), 0.25)
    assert isinstance(await started.outcome, ClientGone)


async def test_an_upstream_that_breaks_off_is_told_with_the_bytes_seen_and_cuts_the_answer(piping):
    gate = asyncio.Event()

    async def script(line):
        await line.request()
        line.write(CHUNKED + chunk(b"abc"))
        await gate.wait()

    served, started = await piping(script)
    client = await served.connect()
    await client.send(GET)
    await client.head()
    gate.set()

    assert await client.rest() == chunk(b"abc")
    error = await started.outcome
    assert isinstance(error, UpstreamBroken)
    assert error.answer_bytes == 3


async def test_after_a_break_the_handler_may_end_the_answer_with_words(piping):
    async def script(line):
        await line.request()
        line.write(CHUNKED + chunk(b"abc"))
        await asyncio.sleep(0.01)

    def on_error(exchange):
        exchange.write(b"data: sorry\n\n")
        exchange.end()

    served, _ = await piping(script, on_error=on_error)

    assert (await served.ask(GET))[2] == b"abcdata: sorry\n\n"


async def test_a_stream_that_falls_silent_times_out(piping, pool):
    async def script(line):
        await line.request()
        line.write(CHUNKED + chunk(b"abc"))
        await line.peer_left()

    served, started = await piping(script)
    client = await served.connect()
    await client.send(GET)
    await client.head()
    (connection,) = pool._open
    now = asyncio.get_running_loop().time()
    connection.check(now)
    connection.check(now + 29)
    assert not started.outcome.done()
    connection.check(now + 31)

    assert isinstance(await started.outcome, UpstreamTimeout)
    await asyncio.wait_for(started.left.wait(), 5)


async def test_a_slow_client_pauses_the_upstream_and_loses_nothing(piping):
    sent = 0
    size, count = 65536, 400

    async def script(line):
        nonlocal sent
        await line.request()
        line.write(CHUNKED)
        for index in range(count):
            line.write(chunk(bytes([index % 256]) * size))
            await line.writer.drain()
            sent += size
        line.write(b"0\r\n\r\n")
        await line.peer_left()

    served, started = await piping(script)
    client = await served.connect()
    client.writer.transport.pause_reading()
    await client.send(GET)
    last = -1
    while sent != last:
        last = sent
        await asyncio.sleep(0.05)
    assert sent < size * count
    client.writer.transport.resume_reading()

    _, _, body = await client.answer()
    assert body == b"".join(bytes([index % 256]) * size for index in range(count))
    assert await started.outcome is None


async def test_cancelling_closes_the_upstream(relay, upstream, pool):
    async def script(line):
        await line.request()
        line.write(CHUNKED + chunk(b"ab"))
        await line.peer_left()

    started = await upstream(script)

    async def handler(exchange):
        response = await pool.request(
            started.endpoint, method="GET", path="/", headers=[], body=b"", first_byte_timeout_s=5
        )
        asyncio.get_running_loop().call_later(0.01, asyncio.current_task().cancel)
        await pipe(response, exchange, headers=[], idle_timeout_s=30)

    client = await (await relay(handler)).connect()
    await client.send(GET)

    await asyncio.wait_for(started.left.wait(), 5)
