"""The admin API's connections against clients that take their time, on a real socket with short limits."""

import asyncio
import contextlib
import json
import socket
import time

import pytest

from llmgw.server.http import protocol
from llmgw.server.main import _Http

SHORT_S = 0.3
PATIENCE_S = 10.0


async def app(scope, receive, send):
    """Answers `/early` at once, everything else once the body is there; `/slow` in two pieces a while apart."""
    if scope["path"] != "/early":
        while (await receive()).get("more_body"):
            pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    if scope["path"] == "/slow":
        await send({"type": "http.response.body", "body": b"do", "more_body": True})
        await asyncio.sleep(3 * SHORT_S)
        await send({"type": "http.response.body", "body": b"ne"})
        return
    await send({"type": "http.response.body", "body": b"done"})


@pytest.fixture
async def address(monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_S", SHORT_S)
    monkeypatch.setattr(protocol, "BODY_S", SHORT_S)
    server = _Http(app, grace_s=1.0, tls=None)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        yield listening.getsockname()
        server.should_exit = True
        await serving


@contextlib.asynccontextmanager
async def connection(address):
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield reader, writer
    finally:
        writer.close()


async def to_the_end(reader) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return await reader.read()


def refusal(answer: bytes) -> dict:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in head
    return json.loads(body)["error"]


async def test_a_client_that_says_nothing_is_let_go(address):
    async with connection(address) as (reader, _):
        assert await to_the_end(reader) == b""


@pytest.mark.parametrize("said", [b"G", b"GET / HTTP/1.1\r\nhost: x\r\n", b"\r\n"])
async def test_a_head_that_does_not_come_is_refused(address, said):
    async with connection(address) as (reader, writer):
        writer.write(said)
        error = refusal(await to_the_end(reader))
    assert error["code"] == "request_timeout"
    assert "headers" in error["message"]


async def test_a_head_that_dribbles_is_refused_after_the_same_time(address):
    began = time.monotonic()
    async with connection(address) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n")
        answer = asyncio.create_task(to_the_end(reader))
        while not answer.done():
            writer.write(b"a: b\r\n")
            await asyncio.sleep(SHORT_S / 10)
        refusal(answer.result())
    assert time.monotonic() - began < PATIENCE_S / 2


async def test_a_body_that_does_not_come_is_refused(address):
    async with connection(address) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf")
        assert "body" in refusal(await to_the_end(reader))["message"]


async def test_an_answer_may_take_longer_than_its_request(address):
    async with connection(address) as (reader, writer):
        writer.write(b"GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert (await to_the_end(reader)).endswith(b"done")


async def test_a_connection_serves_one_request_after_another(address):
    async with connection(address) as (reader, writer):
        for _ in range(3):
            writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nok")
            async with asyncio.timeout(PATIENCE_S):
                assert (await reader.readuntil(b"done")).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(SHORT_S / 3)


async def test_a_connection_answered_before_its_body_came_is_not_kept_for_good(address):
    async with connection(address) as (reader, writer):
        writer.write(b"POST /early HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            await reader.readuntil(b"done")
        writer.write(b"0123456789")
        assert await to_the_end(reader) == b""
