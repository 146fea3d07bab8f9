import asyncio

import pytest

from llmgw.relay.errors import UpstreamBroken, UpstreamTimeout

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def ask(pool, upstream):
    return await pool.request(upstream.endpoint, method="GET", path="/", headers=[], body=b"", first_byte_timeout_s=5)


async def test_pieces_come_as_they_arrive(upstream, pool):
    go = asyncio.Event()

    async def script(line):
        await line.request()
        line.write(CHUNKED + b"2\r\nab\r\n")
        await go.wait()
        line.write(b"1\r\nc\r\n0\r\n\r\n")
        await line.peer_left()

    response = await ask(pool, await upstream(script))
    pieces = []
    async for piece in response.chunks():
        pieces.append(piece)
        go.set()

    assert pieces == [b"ab", b"c"]
    assert response.complete
    assert response.body_bytes == 3


async def test_a_cut_body_is_broken_with_the_bytes_seen(upstream, pool):
    async def script(line):
        await line.request()
        line.write(CHUNKED + b"3\r\nabc\r\n")

    response = await ask(pool, await upstream(script))
    pieces = response.chunks()

    assert await anext(pieces) == b"abc"
    with pytest.raises(UpstreamBroken) as broken:
        await anext(pieces)
    assert broken.value.answer_bytes == 3


async def test_reading_the_whole_tells_of_a_cut_body_too(upstream, pool):
    async def script(line):
        await line.request()
        line.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc")

    response = await ask(pool, await upstream(script))
    with pytest.raises(UpstreamBroken) as broken:
        await response.read(100)

    assert broken.value.answer_bytes == 3


async def test_a_body_that_stops_coming_times_out(upstream, pool):
    async def script(line):
        await line.request()
        line.write(CHUNKED + b"1\r\na\r\n")
        await line.peer_left()

    started = await upstream(script)
    response = await ask(pool, started)
    reading = asyncio.create_task(response.read(100, idle_timeout_s=30))
    await asyncio.sleep(0.01)
    (connection,) = pool._open
    now = asyncio.get_running_loop().time()

    connection.check(now + 10)  # notes that bytes came since
    connection.check(now + 39)
    assert not reading.done()
    connection.check(now + 41)

    with pytest.raises(UpstreamTimeout, match="further byte"):
        await reading
    await asyncio.wait_for(started.left.wait(), 5)


async def test_a_slow_consumer_pauses_the_upstream(upstream, pool):
    sent = 0

    async def script(line):
        nonlocal sent
        await line.request()
        line.write(CHUNKED)
        for _ in range(500):
            line.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await line.writer.drain()
            sent += 65536
        line.write(b"0\r\n\r\n")
        await line.peer_left()

    response = await ask(pool, await upstream(script))
    last = -1
    while sent != last:
        last = sent
        await asyncio.sleep(0.05)
    assert response._buffered < 1_000_000
    assert sent < 500 * 65536

    (connection,) = pool._open
    connection.check(asyncio.get_running_loop().time() + 10_000)  # its silence is ours: no timeout
    total = 0
    async for piece in response.chunks():
        total += len(piece)
    assert total == 500 * 65536


async def test_closing_early_closes_the_upstream_and_may_be_repeated(upstream, pool):
    async def script(line):
        await line.request()
        line.write(CHUNKED + b"1\r\na\r\n")
        await line.peer_left()

    started = await upstream(script)
    response = await ask(pool, started)
    response.close()
    response.close()

    await asyncio.wait_for(started.left.wait(), 5)


async def test_closing_a_complete_answer_keeps_the_connection(upstream, pool):
    async def script(line):
        while True:
            await line.request()
            line.write(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 1\r\n\r\na")

    started = await upstream(script)
    response = await ask(pool, started)
    assert response.header(b"x-a") == b"1"
    assert response.header(b"x-b") is None
    response.close()
    await ask(pool, started)

    assert started.connections == 1
