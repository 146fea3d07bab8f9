"""One request and its answer on a client connection."""

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from llmgw.relay.errors import ClientGone
from llmgw.relay.hop_by_hop import not_forwarded
from llmgw.relay.request import Request

Headers = Sequence[tuple[bytes, bytes]]

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_RESET = struct.pack("ii", 1, 0)
_BODILESS = (204, 304)
_LEFT_OUT = not_forwarded()


class Line(Protocol):
    """What an exchange needs of its connection."""

    transport: asyncio.Transport

    def date(self) -> bytes:
        """Give the `date` header line."""

    def ended(self, exchange: "Exchange") -> None:
        """Note that the exchange is over: the answer is whole, or the connection was broken."""


class Source(Protocol):
    """Where the body comes from while it is piped."""

    def pause(self) -> None:
        """Stop reading: the client does not keep up."""

    def resume(self) -> None:
        """Read on."""


class Exchange:
    """What a handler answers with. Either `respond`, or `start`, `write`…, `end`.

    The relay decides framing (content-length, chunked, close-delimited for HTTP/1.0), adds `date` and `connection`, and
    drops framing and hop-by-hop headers found in `headers`. Bodies are left out for HEAD, 204 and 304. After the client
    left, all writing is a no-op: nothing here raises for it but `drain`.

    A client that shuts down its sending side once its request is complete counts as gone: no API client does that, and
    a vanished client looks the same on the wire.
    """

    __slots__ = (
        "_bodiless",
        "_callbacks",
        "_chunked",
        "_drained",
        "_left",
        "_line",
        "_paused",
        "_write",
        "ended",
        "gone",
        "keep_alive",
        "request",
        "source",
        "started",
        "stays",
    )

    def __init__(self, request: Request, line: Line) -> None:
        self.request = request
        self.started = False
        """A byte of the answer's head went out: no other status can be given any more."""
        self.ended = False
        self.gone = False
        """The client left before `end`."""
        self.keep_alive = request.keep_alive
        """The connection will be used again; the server may take it back until the head is sent."""
        self.stays = False
        """Keep the connection of a client that closed its side until the handler is done: it waits for that."""
        self.source: Source | None = None
        self._line = line
        self._write = line.transport.write
        self._callbacks: list[Callable[[], object]] = []
        self._bodiless = request.method == "HEAD"
        self._chunked = False
        self._left: int | None = None
        self._paused = False
        self._drained: asyncio.Future[None] | None = None

    def on_gone(self, callback: Callable[[], object]) -> None:
        """Call `callback` at once when the client leaves before `end` (now, if it has); at most once, on the loop."""
        if self.gone:
            callback()
            return
        self._callbacks.append(callback)

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer and end."""
        head = self._head(status, headers, len(body))
        self.started = True
        if not self.gone:
            self._write(head if self._bodiless else head + body)
        self._left = 0
        self._chunked = False
        self.end()

    def start(self, status: int, headers: Headers, *, content_length: int | None = None) -> None:
        """Send the head. `content_length` when the body's length is known beforehand; then `write` must keep to it."""
        head = self._head(status, headers, content_length)
        self.started = True
        if not self.gone:
            self._write(head)

    def write(self, data: bytes) -> None:
        """Send a piece of the body at once; an empty one sends nothing. Await `drain` in loops."""
        if self.gone or self._bodiless or not data:
            return
        if self._chunked:
            self._write(b"%x\r\n%b\r\n" % (len(data), data))
            return
        if not self.started or self.ended:
            raise RuntimeError("a body outside of start … end")
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise RuntimeError("more body than the content-length promised")
        self._write(data)

    async def drain(self) -> None:
        """Wait until the client has taken most of what was written. Raises `ClientGone` when it left."""
        if self._paused and not self.gone:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)
        if self.gone:
            raise ClientGone("the client left")

    def end(self) -> None:
        """End the answer. Idempotent. Fewer bytes than declared break the connection."""
        if self.ended:
            return
        if not self.started:
            raise RuntimeError("an end without a start")
        if self._left and not (self._bodiless or self.gone):
            self.abort()
            return
        self.ended = True
        if self.gone:
            return
        if self._chunked:
            self._chunked = False
            self._write(b"0\r\n\r\n")
        self._line.ended(self)

    def abort(self) -> None:
        """End the connection so that a cut answer is seen as cut. No `on_gone` callback is called by it."""
        if self.ended:
            return
        self.ended = True
        self.keep_alive = False
        if self.gone:
            return
        if self.started and not self._chunked and self._left is None:
            # The end of such a body is the end of the connection: only a reset tells that it was cut.
            sock = self._line.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._line.transport.abort()
        self._line.ended(self)

    def drop(self) -> None:
        """Close the connection of a client that left. Idempotent."""
        self._line.transport.abort()

    # For the connection -------------------------------------------------------------------------------

    def client_left(self) -> None:
        """Note that nobody reads the answer any more."""
        if self.ended or self.gone:
            return
        self.gone = True
        self.keep_alive = False
        self._wake()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def pause(self) -> None:
        """Note that the client does not keep up."""
        self._paused = True
        if self.source is not None:
            self.source.pause()

    def resume(self) -> None:
        """Note that the client caught up."""
        self._paused = False
        if self.source is not None:
            self.source.resume()
        self._wake()

    @property
    def paused(self) -> bool:
        """The client does not keep up now."""
        return self._paused

    def _wake(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    def _head(self, status: int, headers: Headers, length: int | None) -> bytes:
        if self.started or self.ended:
            raise RuntimeError("a second head")
        parts = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        dated = False
        for header in headers:
            if header[0] in _LEFT_OUT:
                continue
            dated = dated or header[0] == b"date"
            parts.append(b"%b: %b\r\n" % header)
        if not dated:
            parts.append(self._line.date())
        self._bodiless = self._bodiless or status in _BODILESS
        self._frame(parts, status, length)
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        elif self.request.version == "1.0":
            parts.append(b"connection: keep-alive\r\n")
        head = b"".join(parts)
        if head.count(b"\n") != len(parts):
            raise ValueError("a line break within a header")
        return head + b"\r\n"

    def _frame(self, parts: list[bytes], status: int, length: int | None) -> None:
        if length is not None and status != HTTPStatus.NO_CONTENT:
            self._left = length
            parts.append(b"content-length: %d\r\n" % length)
        elif self._bodiless:
            return
        elif self.request.version == "1.1":
            self._chunked = True
            parts.append(b"transfer-encoding: chunked\r\n")
        else:
            self.keep_alive = False


Handler = Callable[[Exchange], Coroutine[Any, Any, None]]
"""Answers one exchange. Returning or raising before `end`: 500 if nothing was sent (502 or 504 for an `UpstreamError`),
else the connection is broken. It is not cancelled when the client leaves: use `on_gone`."""
