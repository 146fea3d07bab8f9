"""An upstream's answer."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from llmgw.relay.answer import AnswerHead
from llmgw.relay.errors import AnswerTooLarge, UpstreamError

_HIGH, _LOW = 64 * 1024, 16 * 1024
"""Bytes of body held for a slow consumer before the upstream is paused, and at which it goes on."""


class Carrier(Protocol):
    """The connection an answer comes over."""

    name: str

    def pause(self) -> None:
        """Stop reading."""

    def resume(self) -> None:
        """Read on."""

    def allow_silence(self, seconds: float) -> None:
        """Set the time without a byte after which the answer fails with `UpstreamTimeout`."""

    def leave(self) -> "asyncio.Future[None] | None":
        """Leave at once; gives what waits until the upstream let go, `None` when nobody wants to know."""


class Sink(Protocol):
    """Takes the body as it comes; called from the connection's own callbacks, so it must not block or raise."""

    def data(self, piece: bytes) -> None:
        """Take a piece."""

    def finish(self) -> None:
        """Note that the body is whole."""

    def fail(self, error: UpstreamError) -> None:
        """Note that no more will come."""


class UpstreamResponse:
    """The head has come; the body comes as it comes. Use one of `chunks`, `read` or `forward.pipe`, then it is done."""

    __slots__ = (
        "_buffer",
        "_buffered",
        "_carrier",
        "_error",
        "_leaving",
        "_paused",
        "_put",
        "_sink",
        "_waiter",
        "body_bytes",
        "complete",
        "content_length",
        "headers",
        "status",
    )

    def __init__(self, head: AnswerHead, carrier: Carrier) -> None:
        self.status, self.headers, self.content_length = head
        """`headers`: lower-case names, in order; hop-by-hop and framing headers are left out.
        `content_length`: declared length of the body; `None` when it is chunked or ends with the connection."""
        self.body_bytes = 0
        """Bytes of the body seen so far."""
        self.complete = False
        """The whole body has arrived at this process (parts of it may wait to be read)."""
        self._carrier: Carrier | None = carrier
        self._leaving: asyncio.Future[None] | None = None
        self._buffer: deque[bytes] = deque()
        self._buffered = 0
        self._paused = False
        self._error: UpstreamError | None = None
        self._sink: Sink | None = None
        self._put: Callable[[bytes], None] = self._hold
        self._waiter: asyncio.Future[None] | None = None

    def header(self, name: bytes) -> bytes | None:
        """Give the first value of a header by its lower-case name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None

    async def chunks(self, *, idle_timeout_s: float | None = None) -> AsyncIterator[bytes]:
        """Give the body as it comes, de-chunked. A consumer that is slow pauses the upstream.

        Raises `UpstreamBroken`, and `UpstreamTimeout` after `idle_timeout_s` without a byte (by default the first-byte
        timeout of the request). Leaving the loop early does not close the connection: call `close` in a `finally`.
        """
        self.allow_silence(idle_timeout_s)
        while True:
            if self._buffer:
                piece = self._buffer.popleft()
                self._buffered -= len(piece)
                if self._paused and self._buffered <= _LOW:
                    self.resume()
                yield piece
            elif self._error is not None:
                raise self._error
            elif self.complete:
                return
            else:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter

    async def begun(self) -> None:
        """Wait for the first piece of the body, or its end, so that a client is promised nothing before.

        Raises as `chunks` does.
        """
        while not self._buffer and not self.complete:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    async def read(self, limit: int, *, idle_timeout_s: float | None = None) -> bytes:
        """Read the whole body. Raises as `chunks` does, and `AnswerTooLarge` beyond `limit` bytes.

        Costs one wake-up, however many pieces the body comes in.
        """
        if self.intact and self.body_bytes <= limit:
            return self.take()
        self.allow_silence(idle_timeout_s)
        whole = _Whole(self, limit)
        self.into(whole, whole.data)
        try:
            return await whole.done
        finally:
            self.close()

    def close(self) -> None:
        """Leave the connection at once, unless the answer is complete (then it is back in the pool). Idempotent."""
        carrier, self._carrier = self._carrier, None
        if carrier is not None:
            self._leaving = carrier.leave()

    async def left(self) -> None:
        """Wait, after `close`, until the upstream let go of the request: at most the request's `linger_s`."""
        if self._leaving is not None:
            await self._leaving

    # For consumers in this package --------------------------------------------------------------------

    @property
    def intact(self) -> bool:
        """The whole body waits to be taken."""
        return self.complete and self._buffered == self.body_bytes

    def take(self) -> bytes:
        """Take what is buffered."""
        data = self._buffer[0] if len(self._buffer) == 1 else b"".join(self._buffer)
        self._buffer.clear()
        self._buffered = 0
        return data

    def into(self, sink: Sink, put: Callable[[bytes], None]) -> None:
        """Hand what is buffered, all that comes, and the end to `sink`; `put` is what takes pieces (`sink.data`)."""
        if self._buffer:
            put(self.take())
        if self._paused:
            self.resume()
        if self._error is not None:
            sink.fail(self._error)
        elif self.complete:
            sink.finish()
        else:
            self._sink, self._put = sink, put

    def pause(self) -> None:
        """Stop reading from the upstream."""
        self._paused = True
        if self._carrier is not None:
            self._carrier.pause()

    def resume(self) -> None:
        """Read on."""
        self._paused = False
        if self._carrier is not None:
            self._carrier.resume()

    def allow_silence(self, seconds: float | None) -> None:
        """Set how long nothing may come; `None` leaves it as it is."""
        if seconds is not None and self._carrier is not None:
            self._carrier.allow_silence(seconds)

    # For the connection -------------------------------------------------------------------------------

    def deliver(self, piece: bytes) -> None:
        """Take a piece of the body."""
        self.body_bytes += len(piece)
        self._put(piece)

    def finish(self) -> None:
        """Note that the body is whole; the connection has left."""
        self.complete = True
        self._carrier = None
        if self._sink is not None:
            self._sink.finish()
        self._wake()

    def fail(self, error: UpstreamError) -> None:
        """Note that the rest will not come; the connection has left."""
        self._error = error
        self._carrier = None
        if self._sink is not None:
            self._sink.fail(error)
        self._wake()

    def _hold(self, piece: bytes) -> None:
        self._buffer.append(piece)
        self._buffered += len(piece)
        if self._buffered > _HIGH and not self._paused:
            self.pause()
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class _Whole:
    """Collects a body up to a limit."""

    def __init__(self, response: UpstreamResponse, limit: int) -> None:
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._response = response
        self._limit = limit
        self._size = 0
        self._pieces: list[bytes] = []

    def data(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._limit:
            self._pieces.append(piece)
            return
        self._pieces.clear()
        self._response.close()
        self.fail(AnswerTooLarge(f"the answer exceeds {self._limit} bytes"))

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(b"".join(self._pieces))

    def fail(self, error: UpstreamError) -> None:
        if not self.done.done():
            self.done.set_exception(error)
