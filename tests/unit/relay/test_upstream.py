import asyncio
import socket

import pytest

from llmgw.relay.errors import AnswerTooLarge, UpstreamBroken, UpstreamTimeout, UpstreamUnreachable
from llmgw.relay.upstream import Endpoint, UpstreamPool
from llmgw.schema.errors import InvalidInput

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def ask(pool, upstream, *, method="POST", path="/v1/x", headers=(), body=b"{}", timeout_s=5.0):
    return await pool.request(
        upstream.endpoint, method=method, path=path, headers=headers, body=body, first_byte_timeout_s=timeout_s
    )


def overdue(pool, seconds):
    now = asyncio.get_running_loop().time() + seconds
    for connection in tuple(pool._open):
        connection.check(now)


async def answering(line):
    while True:
        await line.request()
        line.write(ANSWER)


async def test_a_request_is_written_anew(upstream, pool):
    seen = []

    async def script(line):
        seen.append(await line.request())
        line.write(ANSWER)

    started = await upstream(script)
    headers = [
        (b"host", b"evil"), (b"content-length", b"99"), (b"transfer-encoding", b"chunked"),
        (b"connection", b"close, X-Hop"), (b"x-hop", b"1"), (b"expect", b"100-continue"), (b"te", b"trailers"),
        (b"x-kept", b"2"),
    ]  # fmt: skip
    response = await ask(pool, started, path="/v1/x?a=b", headers=headers, body=b"abc")
    await response.read(10)

    head = f"POST /v1/x?a=b HTTP/1.1\r\nhost: 127.0.0.1:{started.port}\r\nx-kept: 2\r\ncontent-length: 3\r\n\r\n"
    assert seen == [(head.encode(), b"abc")]


@pytest.mark.parametrize(
    ("path", "headers"),
    [("/a b", []), ("/a\r\nx: y", []), ("a", []), ("/", [(b"x", b"a\r\nb: c")]), ("/", [(b"x\n", b"a")])],
)
async def test_what_would_break_out_of_its_line_is_never_sent(upstream, pool, path, headers):
    started = await upstream(answering)

    with pytest.raises(ValueError, match="line break"):
        await ask(pool, started, path=path, headers=headers)
    assert started.connections == 0


async def test_connections_are_used_again(upstream, pool):
    started = await upstream(answering)

    for _ in range(5):
        response = await ask(pool, started)
        assert (response.status, response.content_length, await response.read(10)) == (200, 2, b"ok")

    assert started.connections == 1


async def test_concurrent_requests_have_connections_of_their_own(upstream, pool):
    started = await upstream(answering)

    responses = await asyncio.gather(*(ask(pool, started) for _ in range(5)))
    assert [await response.read(10) for response in responses] == [b"ok"] * 5

    assert started.connections == 5


async def test_a_connection_idle_for_too_long_is_not_used_again(upstream):
    pool = UpstreamPool(idle_s=4)
    started = await upstream(answering)
    await (await ask(pool, started)).read(10)

    overdue(pool, 3.9)
    assert len(pool._open) == 1
    overdue(pool, 4.1)
    await asyncio.sleep(0.01)

    assert not pool._open
    assert not pool._idle
    await (await ask(pool, started)).read(10)
    assert started.connections == 2
    pool.close()


async def test_no_more_than_the_allowed_number_stays_idle(upstream):
    pool = UpstreamPool(max_idle_per_endpoint=2)
    started = await upstream(answering)

    for response in await asyncio.gather(*(ask(pool, started) for _ in range(5))):
        await response.read(10)
    await asyncio.sleep(0.01)

    assert len(pool._open) == 2
    pool.close()


async def test_a_stale_connection_is_dialled_again_once(upstream, pool):
    async def script(line):
        await line.request()
        line.write(ANSWER)
        await line.request()  # and close without an answer

    started = await upstream(script)
    await (await ask(pool, started)).read(10)

    assert await (await ask(pool, started)).read(10) == b"ok"
    assert started.connections == 2


async def test_a_fresh_connection_that_closes_without_an_answer_is_broken(upstream, pool):
    async def script(line):
        await line.request()

    started = await upstream(script)

    with pytest.raises(UpstreamBroken, match=str(started.port)) as broken:
        await ask(pool, started)
    assert broken.value.answer_bytes == 0
    assert started.connections == 1


async def test_a_cut_head_is_broken_and_not_asked_again(upstream, pool):
    async def script(line):
        await line.request()
        line.write(ANSWER)
        await line.request()
        line.write(b"HTTP/1.1 200 O")

    started = await upstream(script)
    await (await ask(pool, started)).read(10)

    with pytest.raises(UpstreamBroken):
        await ask(pool, started)
    assert started.connections == 1


async def test_where_nothing_listens_is_unreachable(pool):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    with pytest.raises(UpstreamUnreachable, match=f"127.0.0.1:{port}"):
        await pool.request(
            Endpoint("127.0.0.1", port), method="GET", path="/", headers=[], body=b"", first_byte_timeout_s=1
        )


async def test_a_silent_upstream_times_out_and_is_closed(upstream, pool, until):
    async def script(line):
        await line.request()
        await line.peer_left()

    started = await upstream(script)
    asking = asyncio.create_task(ask(pool, started, timeout_s=30))
    await until(lambda: pool._open)
    await asyncio.sleep(0.01)

    overdue(pool, 29)
    assert not asking.done()
    overdue(pool, 31)

    with pytest.raises(UpstreamTimeout, match="30 s"):
        await asking
    await asyncio.wait_for(started.left.wait(), 5)


async def test_cancelling_closes_the_connection_at_once(upstream, pool, until):
    async def script(line):
        await line.request()
        await line.peer_left()

    started = await upstream(script)
    asking = asyncio.create_task(ask(pool, started))
    await until(lambda: started.connections)
    asking.cancel()

    await asyncio.wait_for(started.left.wait(), 5)
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.sleep(0.01)
    assert not pool._open


async def test_cancelling_after_the_answer_came_leaves_the_connections_next_user_alone(upstream, pool):
    started = await upstream(answering)
    await (await ask(pool, started)).read(10)
    (connection,) = pool._open
    first = asyncio.create_task(ask(pool, started))
    await asyncio.sleep(0)
    connection.data_received(ANSWER)  # complete: back in the pool before the first task wakes up
    second = asyncio.create_task(ask(pool, started))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    assert await (await second).read(10) == b"ok"


async def test_unasked_bytes_on_an_idle_connection_end_it(upstream, pool):
    async def script(line):
        await line.request()
        line.write(ANSWER)
        await asyncio.sleep(0.01)
        line.write(ANSWER.replace(b"ok", b"no"))
        await line.peer_left()

    started = await upstream(script)
    await (await ask(pool, started)).read(10)
    await asyncio.wait_for(started.left.wait(), 5)

    assert not pool._idle
    assert await (await ask(pool, started)).read(10) == b"ok"


async def test_an_answer_to_head_has_no_body(upstream, pool):
    async def script(line):
        await line.request()
        line.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        await line.peer_left()

    started = await upstream(script)
    response = await ask(pool, started, method="HEAD", body=b"")

    assert (response.content_length, await response.read(10)) == (5, b"")


async def test_closing_the_pool_drops_all_connections(upstream):
    pool = UpstreamPool()
    started = await upstream(answering)
    await (await ask(pool, started)).read(10)
    pool.close()
    await asyncio.sleep(0.01)

    assert not pool._open


async def test_a_body_beyond_the_readers_limit_is_refused(upstream, pool):
    async def script(line):
        await line.request()
        line.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100)
        await line.peer_left()

    started = await upstream(script)
    response = await ask(pool, started)

    with pytest.raises(AnswerTooLarge):
        await response.read(99)
    await asyncio.wait_for(started.left.wait(), 5)


def test_an_endpoint_is_taken_from_a_url():
    assert Endpoint.from_url("http://127.0.0.1:8080/v1") == Endpoint("127.0.0.1", 8080)
    assert Endpoint.from_url("http://engine") == Endpoint("engine", 80)
    assert str(Endpoint.from_url("http://[::1]:1")) == "[::1]:1"


@pytest.mark.parametrize("url", ["https://a", "a:1", "", "http://", "http://a:b", "http://a:99999"])
def test_what_is_no_url_of_an_upstream_is_refused(url):
    with pytest.raises(InvalidInput, match="not the URL"):
        Endpoint.from_url(url)


def lingering(go: asyncio.Event, *, begin: bytes = b""):
    """Script an upstream that begins to answer, sees its client leave, and lets go when told."""

    async def script(line):
        await line.request()
        line.write(begin)
        await line.peer_left()
        line.write(b"more that nobody reads")
        await go.wait()

    return script


async def leave_while_it_thinks(pool, started):
    asking = asyncio.create_task(
        pool.request(
            started.endpoint, method="POST", path="/", headers=(), body=b"{}", first_byte_timeout_s=5, linger_s=120
        )
    )
    async with asyncio.timeout(5):
        while not started.connections:  # noqa: ASYNC110 -- the upstream has no event for it
            await asyncio.sleep(0.001)
    asking.cancel()
    return asking


async def leave_in_mid_answer(pool, started):
    response = await pool.request(
        started.endpoint, method="POST", path="/", headers=(), body=b"{}", first_byte_timeout_s=5, linger_s=120
    )
    response.close()
    return asyncio.ensure_future(response.left())


@pytest.mark.parametrize("leave", [leave_while_it_thinks, leave_in_mid_answer])
async def test_with_patience_the_upstream_is_left_at_once_and_waited_for(upstream, pool, leave):
    go = asyncio.Event()
    started = await upstream(lingering(go, begin=ANSWER[:-1] if leave is leave_in_mid_answer else b""))
    waiting = await leave(pool, started)

    await asyncio.wait_for(started.left.wait(), 5)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    go.set()
    await asyncio.wait({waiting}, timeout=5)

    assert waiting.done()
    assert waiting.cancelled() == (leave is leave_while_it_thinks)
    assert not pool._open


async def test_patience_with_an_upstream_that_does_not_let_go_ends(upstream, pool):
    started = await upstream(lingering(asyncio.Event()))
    waiting = await leave_while_it_thinks(pool, started)
    await asyncio.wait_for(started.left.wait(), 5)

    overdue(pool, 119)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    overdue(pool, 121)
    await asyncio.wait({waiting}, timeout=5)

    assert waiting.cancelled()


async def test_a_complete_answer_needs_no_patience(upstream, pool):
    started = await upstream(answering)
    response = await pool.request(
        started.endpoint, method="POST", path="/", headers=(), body=b"{}", first_byte_timeout_s=5, linger_s=120
    )
    await response.read(10)
    response.close()
    await response.left()

    assert len(pool._open) == 1
