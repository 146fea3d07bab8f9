"""The HTTP side of the fake engine: one connection, requests in turn, a client's leaving noticed at once.

Written simply, for tests: requests carry a Content-Length or no body.
"""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import cycle
from typing import cast

JSON = "application/json"
EVENTS = "text/event-stream"

_ODD_SIZES = (1, 2, 3, 5, 7, 11, 13)


@dataclass(frozen=True)
class Request:
    """One request; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Connection(asyncio.Protocol):
    """One client's connection. `handle` is cancelled when the client leaves."""

    def __init__(self, handle: "Handler", connections: set["Connection"]) -> None:
        self._handle = handle
        self._connections = connections
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport = cast("asyncio.Transport", None)

    @property
    def busy(self) -> bool:
        """True while a request is answered."""
        return self._task is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Collect bytes; begin a request when it is whole and none is at work."""
        self._buffer += data
        self._next()

    def eof_received(self) -> bool:
        """Take a half-closed connection for a client that left, as llama.cpp does."""
        self._transport.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Cancel what is at work for a client that left."""
        self._connections.discard(self)
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        """Hold `send` while the client does not read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let `send` go on."""
        self._writable.set()

    def respond(self, status: int, body: bytes, *, kind: str = JSON, headers: dict[str, str] | None = None) -> None:
        """Send a whole answer."""
        self._transport.write(_head(status, {**(headers or {}), "content-length": str(len(body))}, kind) + body)

    def respond_half(self, status: int, body: bytes) -> None:
        """Promise a whole answer, send half of it."""
        self._transport.write(_head(status, {"content-length": str(len(body))}, JSON) + body[: len(body) // 2])

    def start_stream(self) -> None:
        """Send the head of a streamed answer."""
        self._transport.write(_head(HTTPStatus.OK, {"transfer-encoding": "chunked"}, EVENTS))

    async def send(self, data: bytes, *, odd: bool = False) -> None:
        """Send one piece of a stream once the client reads; `odd`: in pieces of odd sizes, framing included."""
        await self._writable.wait()
        framed = b"%x\r\n%b\r\n" % (len(data), data)
        if not odd:
            self._transport.write(framed)
            return
        sizes = cycle(_ODD_SIZES)
        while framed:
            size = next(sizes)
            self._transport.write(framed[:size])
            framed = framed[size:]
            await asyncio.sleep(0)

    def end_stream(self) -> None:
        """End a streamed answer."""
        self._transport.write(b"0\r\n\r\n")

    def close(self) -> None:
        """Close after what was written: the client sees an end of file."""
        self._transport.close()

    def abort(self) -> None:
        """Break the connection: the client sees a reset, not an end of file."""
        if not self._transport.is_closing():
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _next(self) -> None:
        if self._task is not None:
            return
        request = _take(self._buffer)
        if request is None:
            return
        self._task = asyncio.get_running_loop().create_task(self._run(request))
        self._task.add_done_callback(self._done)

    async def _run(self, request: Request) -> None:
        await self._handle(request, self)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self.abort()
            raise error
        if not self._transport.is_closing():
            self._next()


Handler = Callable[[Request, Connection], Awaitable[None]]


def _take(buffer: bytearray) -> Request | None:
    """Take one whole request off the buffer's front; `None` when it is not whole yet."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    first, *lines = buffer[:end].decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    stop = end + 4 + int(headers.get("content-length", "0"))
    if len(buffer) < stop:
        return None
    body = bytes(buffer[end + 4 : stop])
    del buffer[:stop]
    return Request(method=method, path=path, headers=headers, body=body)


def _head(status: int, headers: dict[str, str], kind: str) -> bytes:
    lines = [f"HTTP/1.1 {int(status)} {HTTPStatus(status).phrase}", f"content-type: {kind}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
