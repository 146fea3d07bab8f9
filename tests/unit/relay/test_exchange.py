import asyncio

import pytest

from llmgw.relay.errors import ClientGone

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
OLD = b"GET / HTTP/1.0\r\n\r\n"


def handling(*steps):
    async def handler(exchange):
        for step in steps:
            step(exchange)

    return handler


async def test_a_whole_answer_has_length_date_and_the_given_headers(relay):
    handler = handling(lambda e: e.respond(200, [(b"x-a", b"1")], b"abc"))

    status, headers, body = await (await relay(handler)).ask(GET)

    assert (status, headers["content-length"], headers["x-a"], body) == (200, "3", "1", b"abc")
    assert headers["date"].endswith("GMT")
    assert "connection" not in headers


async def test_a_streamed_answer_is_chunked_and_the_connection_is_used_again(relay):
    handler = handling(
        lambda e: e.start(200, []),
        lambda e: e.write(b"ab"),
        lambda e: e.write(b""),
        lambda e: e.write(b"c" * 20),
        lambda e: e.end(),
    )
    client = await (await relay(handler)).connect()

    for _ in range(2):
        await client.send(GET)
        status, headers, body = await client.answer()
        assert (status, headers["transfer-encoding"], body) == (200, "chunked", b"ab" + b"c" * 20)


async def test_a_streamed_answer_to_http_1_0_ends_with_the_connection(relay):
    handler = handling(lambda e: e.start(200, []), lambda e: e.write(b"ab"), lambda e: e.end())

    status, headers, body = await (await relay(handler)).ask(OLD)

    assert (status, headers["connection"], body) == (200, "close", b"ab")
    assert "transfer-encoding" not in headers


async def test_http_1_0_keeps_the_connection_when_it_asks_and_the_length_is_known(relay):
    client = await (await relay(handling(lambda e: e.respond(200, [], b"a")))).connect()

    for _ in range(2):
        await client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert (await client.answer())[1]["connection"] == "keep-alive"


async def test_an_answer_with_a_known_length_is_not_chunked(relay):
    handler = handling(
        lambda e: e.start(200, [(b"content-length", b"999"), (b"transfer-encoding", b"gzip")], content_length=3),
        lambda e: e.write(b"abc"),
        lambda e: e.end(),
    )

    _, headers, body = await (await relay(handler)).ask(GET)

    assert (headers["content-length"], body) == ("3", b"abc")
    assert "transfer-encoding" not in headers


async def test_fewer_bytes_than_promised_break_the_connection(relay):
    handler = handling(lambda e: e.start(200, [], content_length=3), lambda e: e.write(b"ab"), lambda e: e.end())
    client = await (await relay(handler)).connect()
    await client.send(GET)

    with pytest.raises(asyncio.IncompleteReadError):
        await client.answer()


async def test_more_bytes_than_promised_are_not_sent(relay):
    handler = handling(lambda e: e.start(200, [], content_length=3), lambda e: e.write(b"abcd"))
    client = await (await relay(handler)).connect()
    await client.send(GET)

    with pytest.raises(asyncio.IncompleteReadError) as cut:
        await client.answer()
    assert cut.value.partial == b""


@pytest.mark.parametrize("status", [204, 304])
async def test_some_statuses_have_no_body(relay, status):
    client = await (await relay(handling(lambda e: e.respond(status, [], b"never")))).connect()

    for _ in range(2):
        await client.send(GET)
        assert (await client.head())[0] == status


async def test_head_is_answered_with_the_length_and_no_body(relay):
    client = await (await relay(handling(lambda e: e.respond(200, [], b"abc")))).connect()

    for _ in range(2):
        await client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await client.head())[1]["content-length"] == "3"


async def test_a_streamed_answer_to_head_has_no_body(relay):
    client = await (
        await relay(handling(lambda e: e.start(200, []), lambda e: e.write(b"a"), lambda e: e.end()))
    ).connect()

    for _ in range(2):
        await client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await client.head())[0] == 200


async def test_a_given_date_is_kept(relay):
    _, headers, _ = await (await relay(handling(lambda e: e.respond(200, [(b"date", b"then")], b"")))).ask(GET)

    assert headers["date"] == "then"


async def test_a_line_break_in_a_header_is_never_sent(relay):
    status, headers, _ = await (
        await relay(handling(lambda e: e.respond(200, [(b"x", b"a\r\nset-cookie: b")], b"")))
    ).ask(GET)

    assert status == 500
    assert "set-cookie" not in headers


async def test_an_aborted_chunked_answer_is_seen_as_cut_after_what_was_sent(relay):
    client = await (
        await relay(handling(lambda e: e.start(200, []), lambda e: e.write(b"ab"), lambda e: e.abort()))
    ).connect()
    await client.send(GET)
    await client.head()

    assert await client.rest() == b"2\r\nab\r\n"


async def test_an_aborted_answer_to_http_1_0_is_reset(relay):
    sent = asyncio.Event()

    async def handler(exchange):
        exchange.start(200, [])
        await sent.wait()
        exchange.abort()

    client = await (await relay(handler)).connect()
    await client.send(OLD)
    await client.head()
    sent.set()

    with pytest.raises(ConnectionResetError):
        await client.rest()


async def test_drain_waits_for_a_slow_client_and_tells_when_it_leaves(relay):
    outcome = asyncio.get_running_loop().create_future()
    written = 0

    async def handler(exchange):
        nonlocal written
        exchange.start(200, [])
        try:
            while True:
                exchange.write(b"x" * 65536)
                written += 65536
                await exchange.drain()
        except ClientGone as error:
            outcome.set_result(error)
            raise

    client = await (await relay(handler)).connect()
    client.writer.transport.pause_reading()
    await client.send(GET)
    last = -1
    while written != last:
        last = written
        await asyncio.sleep(0.05)

    assert written < 50_000_000
    client.reset()
    assert isinstance(await asyncio.wait_for(outcome, 5), ClientGone)


async def test_after_the_client_left_writing_is_a_no_op_and_a_late_callback_is_called_at_once(relay):
    seen = asyncio.get_running_loop().create_future()
    left = asyncio.Event()
    begun = asyncio.Event()

    async def handler(exchange):
        exchange.on_gone(left.set)
        begun.set()
        await left.wait()
        late = []
        exchange.on_gone(lambda: late.append(True))
        exchange.start(200, [])
        exchange.write(b"a")
        exchange.end()
        seen.set_result((late, exchange.gone, exchange.ended))

    client = await (await relay(handler)).connect()
    await client.send(GET)
    await begun.wait()
    client.writer.close()

    assert await asyncio.wait_for(seen, 5) == ([True], True, True)


@pytest.mark.parametrize(
    "steps",
    [
        [lambda e: e.write(b"a")],
        [lambda e: e.end()],
        [lambda e: e.respond(200, [], b""), lambda e: e.start(200, [])],
        [lambda e: e.start(200, []), lambda e: e.respond(200, [], b"")],
        [lambda e: e.respond(200, [], b""), lambda e: e.write(b"a")],
    ],
)
async def test_steps_out_of_order_are_errors(relay, steps):
    raised = asyncio.get_running_loop().create_future()

    async def handler(exchange):
        try:
            for step in steps:
                step(exchange)
        except RuntimeError as error:
            raised.set_result(error)

    client = await (await relay(handler)).connect()
    await client.send(GET)

    assert isinstance(await raised, RuntimeError)
