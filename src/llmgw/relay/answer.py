"""Strict parsing of upstreams' answers, on llhttp. No I/O here: bytes go in, a head and pieces of a body come out."""

from typing import NamedTuple

import httptools

from llmgw.relay.hop_by_hop import not_forwarded
from llmgw.relay.parser import Stop

_MAX_HEAD = 256 * 1024


class AnswerHead(NamedTuple):
    """The head of an upstream's answer, without hop-by-hop and framing headers."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content_length: int | None


class ResponseParser:
    """Turns an upstream's bytes into one answer at a time. `begin` comes before each."""

    def __init__(self) -> None:
        self.head: AnswerHead | None = None
        """Set once the head is complete; interim (1xx) answers are skipped."""
        self.complete = False
        self.broken: str | None = None
        """Why this is no proper answer, in words."""
        self.begun = False
        """At least one byte of an answer came."""
        self._surplus = False
        self._keep_alive = False
        self._head_only = False
        self._until_close = False
        self._interim = False
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        self._parser = httptools.HttpResponseParser(self)

    @property
    def reusable(self) -> bool:
        """The connection may carry another request."""
        return self.complete and self._keep_alive and not self._surplus

    def begin(self, *, head_only: bool) -> None:
        """Expect an answer; `head_only` for one to HEAD."""
        self.head = None
        self.complete = self.begun = self._until_close = self._keep_alive = False
        self._head_only = head_only
        self._head_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Parse bytes and give the part of the body in them. Look at `head`, `complete` and `broken` afterwards."""
        if self.complete:
            self._surplus = True
            return b""
        if self.head is None:
            self._feed_head(data)
        else:
            self._feed(data)
        pieces = self._pieces
        return pieces.pop() if len(pieces) == 1 and not self._head_only else self._body()

    def eof(self) -> None:
        """Note the end of the connection: it ends an answer that has no length of its own, and breaks any other."""
        if self.complete or self.broken is not None:
            return
        if self._until_close:
            self.complete = True
        else:
            self.broken = "it closed the connection"

    def _feed_head(self, data: bytes) -> None:
        self.begun = True
        self._head_bytes += len(data)
        self._feed(data)
        if self.head is None and self._head_bytes > _MAX_HEAD:
            self.broken = self.broken or f"its head exceeds {_MAX_HEAD} bytes"

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.broken = "it switched protocols unasked"
        except httptools.HttpParserError as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self.complete:
            self._surplus = True
        elif self.broken is None:
            self.broken = f"it sent no proper HTTP: {error}"

    def _body(self) -> bytes:
        pieces = self._pieces
        if not pieces:
            return b""
        data = b"".join(pieces)
        pieces.clear()
        return b"" if self._head_only else data

    # Called by llhttp ---------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin an answer; one that nobody asked for makes the connection unusable."""
        if self.complete:
            raise Stop
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer, which is dropped."""
        self._headers.append((name.lower(), value.rstrip()))

    def on_headers_complete(self) -> None:
        """Settle how the body ends."""
        status = self._parser.get_status_code()
        self._interim = status < 200  # noqa: PLR2004 -- the class of interim answers, RFC 9110 15.2
        if self._interim:
            return
        length, named, coding = None, b"", b""
        for name, value in self._headers:
            if name == b"content-length":
                length = int(value)
            elif name == b"connection":
                named += b"," + value
            elif name == b"transfer-encoding":
                coding = value.lower()
        if coding not in (b"", b"chunked"):
            self.broken = "it used a transfer coding other than chunked"
            raise Stop
        dropped = not_forwarded(named)
        self.head = AnswerHead(status, [header for header in self._headers if header[0] not in dropped], length)
        bodiless = self._head_only or status in (204, 304)
        self._until_close = length is None and not coding and not bodiless
        self.complete = self._head_only

    def on_message_complete(self) -> None:
        """End the answer."""
        if self._interim or self._head_only:
            return
        self.complete = True
        self._keep_alive = self._parser.should_keep_alive()
