"""HTTP by hand, for tests: a socket that sends and reads bytes, and upstreams that run a script per connection."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

from llmgw.relay.upstream import Endpoint


class Client:
    """A socket that sends bytes and reads bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> "Client":
        """Connect to a port of loopback."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, data: bytes) -> None:
        """Send bytes."""
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
        """Read a chunked body, chunk by chunk."""
        while size := int(await self.reader.readline(), 16):
            yield await self.reader.readexactly(size)
            await self._line_end()
        await self._line_end()

    async def rest(self) -> bytes:
        """Read to the end."""
        return await self.reader.read()

    async def _line_end(self) -> None:
        end = await self.reader.readexactly(2)
        if end != b"\r\n":
            raise ValueError(f"{end!r} where a chunk should end")

    def reset(self) -> None:
        """Leave with a RST."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()


class Upstream:
    """Runs a script for each connection and counts."""

    def __init__(self, script: "Script") -> None:
        self.port = 0
        self.connections = 0
        self.left = asyncio.Event()
        """A peer closed while the script waited for it."""
        self._script = script
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        """Listen on a free port of loopback."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Break all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        return Endpoint("127.0.0.1", self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- for the type checker: connections are served in tasks
        self._tasks.add(task)
        self._writers.append(writer)
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await self._script(Line(reader, writer, self))
        writer.close()


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
        """Send bytes."""
        self.writer.write(data)

    async def peer_left(self) -> None:
        """Wait until the relay closes."""
        with contextlib.suppress(ConnectionError):
            await self.reader.read()
        self._upstream.left.set()


Script = Callable[[Line], Awaitable[None]]
