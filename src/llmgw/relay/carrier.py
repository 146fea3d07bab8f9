"""One connection to an upstream: a request out, an answer in, then idle until the next."""

import asyncio
from typing import Protocol, cast

from llmgw.relay.answer import ResponseParser
from llmgw.relay.errors import UpstreamBroken, UpstreamError, UpstreamTimeout
from llmgw.relay.response import UpstreamResponse
from llmgw.relay.sweep import NEVER
from llmgw.relay.tls import BUFFER_BYTES, LEAVING


class Stale(Exception):
    """The connection ended before any byte of an answer; a reused one may have been closed before we wrote."""


class Owner(Protocol):
    """What a connection needs of its pool."""

    def opened(self, connection: "UpstreamConnection") -> None:
        """Watch a new connection."""

    def released(self, connection: "UpstreamConnection") -> bool:
        """Take a connection back whose answer is complete; False when it is not wanted."""

    def closed(self, connection: "UpstreamConnection") -> None:
        """Forget a connection."""


class UpstreamConnection(asyncio.Protocol):
    """Carries one exchange at a time."""

    transport: asyncio.Transport

    def __init__(self, owner: Owner, name: str, *, tls: bool = False) -> None:
        self.name = name
        """`host:port`, with TLS also whose: for texts, and what the pool knows it by."""
        self.deadline = NEVER
        """When the first byte, the next byte, or (idle) the next request is overdue."""
        self._tls = tls
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._parser = ResponseParser()
        self._response: UpstreamResponse | None = None
        self._head: asyncio.Future[UpstreamResponse] | None = None
        self._silence_s = NEVER
        self._heard = False
        """Bytes came since the last check."""
        self._held = False
        """Reading is paused."""
        self._linger_s = 0.0
        self._left: asyncio.Future[None] | None = None
        """We left; done once the upstream closed its side too."""

    async def send(self, data: bytes, *, head_only: bool, timeout_s: float, linger_s: float = 0.0) -> UpstreamResponse:
        """Send a whole request and wait for the head of its answer. Raises `Stale` and `UpstreamError`s."""
        self._parser.begin(head_only=head_only)
        self._linger_s = linger_s
        head: asyncio.Future[UpstreamResponse] = self._loop.create_future()
        self._head = head
        self._heard = False
        self.allow_silence(timeout_s)
        self.transport.write(data)
        try:
            return await head
        except asyncio.CancelledError:
            if head.cancelled():
                left = self.leave()
                if left is not None:
                    await left
            elif head.exception() is None:
                response = head.result()
                response.close()  # it came, and perhaps went back to the pool, before the task woke up
                await response.left()
            raise

    # Called by the transport --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell the pool, which closes it again if it is never used."""
        self.transport = cast("asyncio.Transport", transport)
        if self._tls:
            self.transport.set_write_buffer_limits(BUFFER_BYTES)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        """Hand on what came."""
        if self._left is not None:
            return
        parser = self._parser
        body = parser.feed(data)
        self._heard = True
        response = self._response
        if response is None:
            response = self._begin()
            if response is None:
                return
        if body:
            response.deliver(body)
        if parser.complete:
            self._finish()
        elif parser.broken is not None:
            self._fail(self._broken(parser.broken))

    def eof_received(self) -> None:
        """Note the upstream's end; the transport closes itself."""
        self._end("it closed the connection")

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the connection is gone."""
        self._end(f"the connection was lost: {error}" if error else "it closed the connection")
        self._owner.closed(self)
        if self._left is not None and not self._left.done():
            self._left.set_result(None)

    # Called by pool and response ----------------------------------------------------------------------

    def pause(self) -> None:
        """Stop reading; silence is ours then."""
        self.deadline = NEVER
        self._held = True
        self.transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        self._held = False
        self.deadline = self._loop.time() + self._silence_s
        self.transport.resume_reading()

    def allow_silence(self, seconds: float) -> None:
        """Set how long nothing may come."""
        self._silence_s = seconds
        self.deadline = self._loop.time() + seconds

    def drop(self) -> None:
        """Close at once."""
        self._response = self._head = None
        self.deadline = NEVER
        self.transport.abort()

    def leave(self) -> "asyncio.Future[None] | None":
        """Leave at once: the upstream sees the end of our side, with TLS it is told (see `LEAVING`).

        Gives what waits until it closed its own, at most `linger_s`; `None` when that was 0: the connection is dropped.
        """
        if self._linger_s <= 0:
            self.drop()
            return None
        self._response = self._head = None
        self._heard = False
        self.deadline = self._loop.time() + self._linger_s
        self._left = self._loop.create_future()
        if self._held:
            self._held = False
            self.transport.resume_reading()
        if self._tls:
            self.transport.write(LEAVING)
        else:
            self.transport.write_eof()
        return self._left

    def check(self, now: float) -> None:
        """Act on a deadline that passed. Bytes only mark that they came: this is cheaper than a clock at each."""
        if self._heard and self.deadline is not NEVER:
            self._heard = False
            if self._response is not None:
                self.deadline = now + self._silence_s
        if now < self.deadline:
            return
        if self._response is None and self._head is None:
            self.drop()
            return
        what = "further byte" if self._response is not None else "answer"
        self._fail(UpstreamTimeout(f"upstream {self.name} sent no {what} for {self._silence_s:g} s"))

    # --------------------------------------------------------------------------------------------------

    def _begin(self) -> UpstreamResponse | None:
        """Hand out the head if it is complete."""
        parser, waiting = self._parser, self._head
        if waiting is None or waiting.done():
            self.drop()  # bytes that nobody asked for: the next answer could not be told from them
            return None
        if parser.head is None:
            if parser.broken is not None:
                self._fail(self._broken(parser.broken))
            return None
        self._response = response = UpstreamResponse(parser.head, self)
        self._head = None
        waiting.set_result(response)
        return response

    def _finish(self) -> None:
        response, self._response = self._response, None
        self._heard = False
        self.deadline = NEVER
        if self._held:
            self._held = False
            self.transport.resume_reading()
        if not (self._parser.reusable and self._owner.released(self)):
            self.transport.close()
        if response is not None:
            response.finish()

    def _end(self, why: str) -> None:
        if self._response is None and self._head is None:
            return
        self._parser.eof()
        if self._parser.complete and self._response is not None:
            self._finish()
        elif self._parser.begun:
            self._fail(self._broken(self._parser.broken or why))
        else:
            self._fail(Stale(f"upstream {self.name}: {why}"))

    def _fail(self, error: UpstreamError | Stale) -> None:
        response, waiting = self._response, self._head
        self.drop()
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)
        elif response is not None and isinstance(error, UpstreamError):
            response.fail(error)

    def _broken(self, why: str) -> UpstreamBroken:
        seen = self._response.body_bytes if self._response is not None else 0
        return UpstreamBroken(f"upstream {self.name} broke off its answer: {why}", answer_bytes=seen)
