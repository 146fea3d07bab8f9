import asyncio
import json
import socket

from llmgw.relay.errors import UpstreamBroken, UpstreamTimeout, UpstreamUnreachable

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def test_a_handler_that_fails_is_answered_500_without_its_words(relay):
    async def handler(exchange):
        raise ValueError("secret")

    client = await (await relay(handler)).connect()
    for _ in range(2):
        await client.send(GET)
        status, _, body = await client.answer()
        assert (status, json.loads(body)["code"]) == (500, "internal")
        assert b"secret" not in body


async def test_a_handler_that_answers_nothing_is_answered_500(relay):
    async def handler(exchange):
        pass

    assert (await (await relay(handler)).ask(GET))[0] == 500


async def test_upstream_errors_have_statuses_of_their_own(relay):
    errors = [
        UpstreamUnreachable("no"),
        UpstreamBroken("broke", answer_bytes=0),
        UpstreamTimeout("late"),
    ]

    async def handler(exchange):
        raise errors.pop(0)

    client = await (await relay(handler)).connect()
    seen = []
    for _ in range(3):
        await client.send(GET)
        status, _, body = await client.answer()
        seen.append((status, json.loads(body)["message"]))
    assert seen == [(502, "no"), (502, "broke"), (504, "late")]


async def test_an_answer_left_open_by_its_handler_is_cut(relay):
    async def handler(exchange):
        exchange.start(200, [])
        exchange.write(b"ab")

    client = await (await relay(handler)).connect()
    await client.send(GET)
    await client.head()

    assert await client.rest() == b"2\r\nab\r\n"


async def test_connections_beyond_the_limit_get_503_and_are_closed(relay, echo):
    served = await relay(echo, max_connections=1)
    first = await served.connect()
    await first.send(GET)
    await first.answer()

    second = await served.connect()
    status, headers, body = await second.answer()

    assert (status, headers["connection"], json.loads(body)["code"]) == (503, "close", "too_many_connections")
    assert await second.rest() == b""
    await first.send(GET)
    assert (await first.answer())[0] == 200


async def test_draining_refuses_new_connections_closes_idle_ones_and_ends_running_answers(relay):
    gate, begun = asyncio.Event(), asyncio.Event()

    async def handler(exchange):
        begun.set()
        await gate.wait()
        exchange.respond(200, [], b"last")

    served = await relay(handler)
    idle, busy = await served.connect(), await served.connect()
    await busy.send(GET)
    await begun.wait()
    draining = asyncio.create_task(served.server.drain(30))

    assert await idle.rest() == b""
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", served.port)) != 0
    assert not draining.done()
    gate.set()
    status, headers, body = await busy.answer()
    assert (status, headers["connection"], body) == (200, "close", b"last")
    await asyncio.wait_for(draining, 5)
    assert served.server.open_connections == 0


async def test_draining_breaks_what_is_left_when_the_time_is_over(relay):
    told = asyncio.Event()

    async def handler(exchange):
        exchange.on_gone(told.set)
        exchange.start(200, [])
        await asyncio.Event().wait()

    served = await relay(handler)
    client = await served.connect()
    await client.send(GET)
    await client.head()

    await asyncio.wait_for(served.server.drain(0.01), 5)

    assert told.is_set()
    assert served.server.open_exchanges == 0


async def test_a_request_that_is_half_received_when_draining_begins_is_served(relay, echo, until):
    served = await relay(echo)
    client = await served.connect()
    await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na")
    await until(lambda: any(not connection.idle for connection in served.server._connections))
    draining = asyncio.create_task(served.server.drain(30))
    await asyncio.sleep(0)
    await client.send(b"bc")

    assert (await client.answer())[0] == 200
    await asyncio.wait_for(draining, 5)


async def test_small_writes_are_not_delayed(relay, echo, until):
    served = await relay(echo)
    await (await served.connect()).send(GET)
    await until(lambda: served.server._connections)

    (connection,) = served.server._connections
    sock = connection.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
