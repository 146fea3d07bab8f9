"""Harness: a relay server, raw clients and scripted upstreams on loopback, without any HTTP library between."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvloop

from llmgw.relay.exchange import Exchange, Handler
from llmgw.relay.limits import Limits
from llmgw.relay.server import HttpServer
from llmgw.relay.upstream import Endpoint, UpstreamPool


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


class Client:
    """A socket that sends bytes and reads bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read one head."""
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = text.strip().split("\r\n")
        return int(first.split(" ")[1]), dict(line.split(": ", 1) for line in lines)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Read one whole answer, framed in any of the three ways."""
        status, headers = await self.head()
        if "content-length" in headers:
            return status, headers, await self.reader.readexactly(int(headers["content-length"]))
        if headers.get("transfer-encoding") != "chunked":
            return status, headers, await self.reader.read()
        return status, headers, b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readline(), 16):
            yield await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        assert await self.reader.readexactly(2) == b"\r\n"

    async def rest(self) -> bytes:
        """Read to the end."""
        return await self.reader.read()

    def reset(self) -> None:
        """Leave with a RST."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()


class Upstream:
    """Runs a script for each connection and counts."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.left = asyncio.Event()
        """A peer closed while the script waited for it."""

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("127.0.0.1", self.port)


class Line:
    """An upstream's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: Upstream) -> None:
        self.reader, self.writer, self._upstream = reader, writer, upstream

    async def request(self) -> tuple[bytes, bytes]:
        """Read head and body of one request."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), 0)
        return head, await self.reader.readexactly(length)

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def peer_left(self) -> None:
        """Wait until the relay closes."""
        with contextlib.suppress(ConnectionError):
            await self.reader.read()
        self._upstream.left.set()


Script = Callable[[Line], Awaitable[None]]


@pytest.fixture
async def upstream() -> AsyncIterator[Callable[[Script], Awaitable[Upstream]]]:
    """Give a function that starts an upstream running a script per connection."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(script: Script) -> Upstream:
            upstream = Upstream()
            tasks, writers = set(), []

            async def serve(reader, writer) -> None:
                tasks.add(asyncio.current_task())
                writers.append(writer)
                upstream.connections += 1
                with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                    await script(Line(reader, writer, upstream))
                writer.close()

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            upstream.port = server.sockets[0].getsockname()[1]

            async def stop() -> None:
                server.close()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for writer in writers:
                    writer.transport.abort()

            stack.push_async_callback(stop)
            return upstream

        yield start


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
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
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
