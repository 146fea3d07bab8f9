"""Harness: a door in this process, over raw sockets on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvloop

from llmgw.door.handler import Door, error_body
from llmgw.door.shards import Shards
from llmgw.relay.limits import Limits
from llmgw.relay.server import HttpServer
from llmgw.relay.upstream import UpstreamPool
from llmgw.testing.clock import FakeClock
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
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def shards(clock) -> Shards:
    return Shards(clock)


@pytest.fixture
async def engine() -> AsyncIterator[Callable[[Script], Awaitable[Upstream]]]:
    """Give a function that starts an engine running a script per connection."""
    engines: list[Upstream] = []

    async def start(script: Script) -> Upstream:
        engines.append(Upstream(script))
        await engines[-1].start()
        return engines[-1]

    yield start
    for one in engines:
        await one.stop()


@pytest.fixture
async def connect(shards) -> AsyncIterator[Callable[[], Awaitable[Client]]]:
    """Give a function that connects to the door."""
    pool = UpstreamPool()
    server = HttpServer(Door(shards, pool), Limits(), error_body)
    sock = socket.create_server(("127.0.0.1", 0))
    await server.serve(sock)
    clients: list[Client] = []

    async def one() -> Client:
        clients.append(await Client.connect(sock.getsockname()[1]))
        return clients[-1]

    yield one
    for client in clients:
        client.writer.transport.abort()
    await server.drain(0)
    pool.close()
