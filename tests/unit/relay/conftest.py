"""Harness: a relay server, raw clients and scripted upstreams on loopback, without any HTTP library between."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvloop

from llmgw.relay.exchange import Exchange, Handler
from llmgw.relay.limits import Limits
from llmgw.relay.server import HttpServer
from llmgw.relay.upstream import UpstreamPool
from llmgw.testing.raw_http import Client, Script, Upstream


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
async def settled() -> AsyncIterator[None]:
    """Let closed transports finish before the loop goes."""
    yield
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def until() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Give a function that waits for what no event tells: the inside of the relay."""

    async def wait(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110 -- see above
                await asyncio.sleep(0.001)

    return wait


@pytest.fixture
async def upstream() -> AsyncIterator[Callable[[Script], Awaitable[Upstream]]]:
    """Give a function that starts an upstream running a script per connection."""
    upstreams: list[Upstream] = []

    async def start(script: Script) -> Upstream:
        upstreams.append(Upstream(script))
        await upstreams[-1].start()
        return upstreams[-1]

    yield start
    for upstream in upstreams:
        await upstream.stop()


@pytest.fixture
async def pool() -> AsyncIterator[UpstreamPool]:
    pool = UpstreamPool()
    yield pool
    pool.close()
    await asyncio.sleep(0)


class Relay:
    """A running server and its clients."""

    def __init__(self, server: HttpServer, port: int) -> None:
        self.server, self.port = server, port
        self.clients: list[Client] = []

    async def connect(self) -> Client:
        client = await Client.connect(self.port)
        self.clients.append(client)
        return client

    async def ask(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        client = await self.connect()
        await client.send(data)
        return await client.answer()

    def overdue(self, seconds: float) -> None:
        """Let all deadlines within `seconds` pass."""
        now = asyncio.get_running_loop().time() + seconds
        for connection in tuple(self.server._connections):
            connection.check(now)


def render_error(status: int, code: str, message: str) -> bytes:
    return json.dumps({"status": status, "code": code, "message": message}).encode()


@pytest.fixture
async def relay() -> AsyncIterator[Callable[..., Awaitable[Relay]]]:
    """Give a function that serves a handler."""
    relays: list[Relay] = []

    async def start(handler: Handler, **limits: object) -> Relay:
        server = HttpServer(handler, Limits(**limits), render_error)
        sock = socket.create_server(("127.0.0.1", 0))
        await server.serve(sock)
        relays.append(Relay(server, sock.getsockname()[1]))
        return relays[-1]

    yield start
    for relay in relays:
        for client in relay.clients:
            client.writer.transport.abort()
        await relay.server.drain(0)


@pytest.fixture
def echo() -> Handler:
    """Give a handler that answers with what it understood."""

    async def handler(exchange: Exchange) -> None:
        request = exchange.request
        seen = {
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in request.headers],
            "body": request.body.decode("latin-1"),
        }
        exchange.respond(200, [(b"content-type", b"application/json")], json.dumps(seen).encode())

    return handler
