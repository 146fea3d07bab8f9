import asyncio
import json

import pytest

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"


async def test_requests_on_one_connection_are_answered_in_order(relay, echo):
    client = await (await relay(echo)).connect()

    await client.send(GET % b"1" + GET % b"2")
    await client.send(GET % b"3")

    assert [json.loads((await client.answer())[2])["path"] for _ in range(3)] == ["/1", "/2", "/3"]


async def test_a_pipelined_request_waits_until_the_one_before_is_answered(relay, until):
    gates = {"/1": asyncio.Event(), "/2": asyncio.Event()}
    begun = []

    async def handler(exchange):
        begun.append(exchange.request.path)
        await gates[exchange.request.path].wait()
        exchange.respond(200, [], exchange.request.path.encode())

    client = await (await relay(handler)).connect()
    await client.send(GET % b"1" + GET % b"2")
    await until(lambda: begun)
    gates["/2"].set()
    await asyncio.sleep(0.01)

    assert begun == ["/1"]
    gates["/1"].set()
    assert [(await client.answer())[2] for _ in range(2)] == [b"/1", b"/2"]


async def test_a_good_request_before_a_bad_one_is_answered_first(relay, echo):
    client = await (await relay(echo)).connect()

    await client.send(GET % b"1" + b"BAD\r\n\r\n")

    assert (await client.answer())[0] == 200
    status, headers, body = await client.answer()
    assert (status, headers["connection"], json.loads(body)["code"]) == (400, "close", "bad_request")
    assert await client.rest() == b""


async def test_a_refused_client_that_goes_on_sending_still_reads_why(relay, echo):
    client = await (await relay(echo, max_body_bytes=10)).connect()

    await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n")
    for _ in range(40):
        await client.send(b"x" * 100_000)

    assert (await client.answer())[0] == 413


async def test_continue_is_sent_when_asked_and_not_before_an_earlier_answer(relay, echo):
    client = await (await relay(echo)).connect()
    await client.send(GET % b"1" + b"POST /2 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")

    assert (await client.answer())[0] == 200
    assert (await client.head())[0] == 100
    await client.send(b"abc")
    assert json.loads((await client.answer())[2])["body"] == "abc"


async def test_no_continue_is_sent_when_the_body_is_there_already(relay, echo):
    status, _, _ = await (await relay(echo)).ask(
        b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"
    )

    assert status == 200


async def test_a_head_that_does_not_come_is_answered_408(relay, echo, until):
    served = await relay(echo, header_timeout_s=5)
    client = await served.connect()
    await client.send(b"GET / HTTP/1.1\r\nHos")
    await until(lambda: not all(connection.idle for connection in served.server._connections))

    served.overdue(4)
    await client.send(b"t: a\r\nX:")
    await asyncio.sleep(0.01)
    served.overdue(6)

    status, _, body = await client.answer()
    assert (status, json.loads(body)["code"]) == (408, "request_timeout")
    assert await client.rest() == b""


async def test_a_body_that_does_not_come_is_answered_408(relay, echo, until):
    served = await relay(echo, header_timeout_s=5, body_timeout_s=30)
    client = await served.connect()
    await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na")
    await until(lambda: not all(connection.idle for connection in served.server._connections))

    served.overdue(29)
    assert served.server.open_connections == 1
    served.overdue(31)

    assert (await client.answer())[0] == 408


async def test_an_idle_connection_is_closed_without_a_word(relay, echo):
    served = await relay(echo, keep_alive_s=75)
    client = await served.connect()
    await client.send(GET % b"")
    await client.answer()

    served.overdue(74)
    await client.send(GET % b"")
    await client.answer()
    served.overdue(76)

    assert await client.rest() == b""


async def test_a_running_answer_has_no_deadline_of_the_connection(relay, until):
    gate = asyncio.Event()

    async def handler(exchange):
        await gate.wait()
        exchange.respond(200, [], b"late")

    served = await relay(handler)
    client = await served.connect()
    await client.send(GET % b"")
    await until(lambda: served.server.open_exchanges == 1)

    served.overdue(10_000)
    gate.set()

    assert (await client.answer())[2] == b"late"


@pytest.mark.parametrize("how", ["close", "reset", "half-close"])
async def test_a_client_that_leaves_is_told_at_once_and_only_once(relay, how, until):
    told = []
    held = asyncio.Event()

    async def handler(exchange):
        exchange.on_gone(lambda: told.append(exchange.gone))
        held.set()
        await asyncio.Event().wait()

    served = await relay(handler)
    client = await served.connect()
    await client.send(GET % b"")
    await held.wait()
    if how == "close":
        client.writer.close()
    elif how == "reset":
        client.reset()
    else:
        client.writer.write_eof()
    await until(lambda: told)
    await until(lambda: served.server.open_connections == 0)

    assert told == [True]


async def test_a_client_that_resets_while_it_is_not_read_is_noticed_by_its_socket(relay, until):
    told = asyncio.Event()
    held = asyncio.Event()

    async def handler(exchange):
        exchange.on_gone(told.set)
        held.set()
        await asyncio.Event().wait()

    served = await relay(handler)
    client = await served.connect()
    await client.send(GET % b"")
    await held.wait()
    client.writer.write((GET % b"more") * 100_000)
    await until(lambda: any(connection._held for connection in served.server._connections))
    client.reset()
    await asyncio.sleep(0.05)
    served.overdue(0)
    await asyncio.wait_for(told.wait(), 5)


async def test_many_pipelined_requests_are_all_answered(relay, echo):
    client = await (await relay(echo)).connect()
    count = 5_000
    sending = asyncio.ensure_future(client.send(b"".join(GET % b"%d" % index for index in range(count))))

    for index in range(count):
        assert json.loads((await client.answer())[2])["path"] == f"/{index}"
    await sending


async def test_after_connection_close_nothing_more_is_served(relay, echo):
    client = await (await relay(echo)).connect()
    await client.send(b"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + GET % b"2")

    status, headers, _ = await client.answer()
    assert (status, headers["connection"]) == (200, "close")
    assert await client.rest() == b""


async def test_a_client_that_does_not_read_its_answer_is_given_up(relay, until):
    gone = asyncio.Event()

    async def handler(exchange):
        exchange.on_gone(gone.set)
        exchange.start(200, [])
        for _ in range(1000):
            exchange.write(b"x" * 100_000)
            await exchange.drain()

    served = await relay(handler, keep_alive_s=75)
    client = await served.connect()
    client.writer.transport.pause_reading()
    await client.send(GET % b"")
    await until(lambda: any(connection._paused for connection in served.server._connections))

    served.overdue(74)
    assert not gone.is_set()
    served.overdue(76)
    await asyncio.wait_for(gone.wait(), 5)
