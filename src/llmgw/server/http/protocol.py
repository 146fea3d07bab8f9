"""Limits on clients below the framework: size of the head, time for head and body, errors in the one shape."""

import asyncio
import http

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from llmgw.schema.errors import ErrorBody
from llmgw.server.http.errors import error_json

MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers together. The largest of ours, a token and a name of 200 letters, has under a kilobyte."""
HEAD_S = 20.0
"""Seconds from the first byte of a request (or the connection) to the end of its headers."""
BODY_S = 60.0
"""Seconds for the whole body, which has a megabyte at most."""


class GuardedProtocol(HttpToolsProtocol):
    """A connection that cannot take more memory or time than a request may need.

    Without it, a head without end is collected and searched again and again, and a silent client stays for good.
    """

    _head_bytes = 0
    _in_head = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base class has it
        """Begin with the time for the first head."""
        super().connection_made(transport)
        self._allow(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time."""
        self._end_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes in, unless they make the head too large."""
        if self._timer is None and self._in_head:
            self._allow(HEAD_S)
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(431, "headers_too_large", f"request line and headers have more than {MAX_HEAD_BYTES} bytes")

    def on_headers_complete(self) -> None:
        """Go on to the body; answers begin before it is there."""
        self._in_head = False
        self._allow(BODY_S)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Be ready for the next head; after an answer the framework's time for idle connections counts."""
        self._in_head, self._head_bytes = True, 0
        self._end_timer()
        super().on_message_complete()
        if self.cycle.response_complete:
            # Answered before the body was there: the framework's time began then, and bytes of the body ended it.
            self._allow(HEAD_S)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP request."""
        del msg
        self._refuse(400, "bad_request", "this is no HTTP/1.1 request that could be understood")

    def _allow(self, seconds: float) -> None:
        self._end_timer()
        self._timer = self.loop.call_later(seconds, self._too_slow)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        if self._in_head and not self._head_bytes:
            self.transport.close()
            return
        part, seconds = ("headers", HEAD_S) if self._in_head else ("body", BODY_S)
        self._refuse(408, "request_timeout", f"the {part} did not arrive within {seconds:.0f} s")

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer at once and close. Where an answer is under way there is nothing left to say."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            body = error_json(ErrorBody(code=code, message=message))
            lines = (
                f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}",
                "content-type: application/json",
                f"content-length: {len(body)}",
                "connection: close",
            )
            self.transport.write("\r\n".join((*lines, "", "")).encode() + body)
        self.transport.close()
