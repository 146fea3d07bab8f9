"""Strict parsing of requests, on llhttp. No I/O here: bytes go in, requests come out.

llhttp refuses bare CR or LF, obs-fold, blanks around names, both Content-Length and Transfer-Encoding, repeated or odd
lengths, and bad chunks. What it lets pass and must not pass here is refused by this module.
"""

from collections import deque
from enum import Enum
from typing import NamedTuple

import httptools

from llmgw.relay.limits import Limits
from llmgw.relay.request import Request

_SLICE = 16 * 1024
"""Bytes looked at before stopping at a complete request: bounds what a pipelining client makes us hold as objects."""

_METHODS = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"))
_WATCHED = frozenset((b"host", b"content-length", b"transfer-encoding", b"expect"))


class Stage(Enum):
    """Where in a message a parser is."""

    BETWEEN = "between"
    HEAD = "head"
    BODY = "body"


class Refusal(NamedTuple):
    """Why a connection's next message cannot be served; the connection ends with it."""

    status: int
    code: str
    message: str


class Stop(Exception):
    """Leaves llhttp from within a callback; the reason is kept on the parser."""


class RequestParser:
    """Turns a client's bytes into requests, the same however the bytes are split.

    `requests` holds complete ones in order; when it is empty and `refusal` is set, that is the answer to the rest.
    """

    def __init__(self, limits: Limits) -> None:
        self.requests: deque[Request] = deque()
        self.refusal: Refusal | None = None
        self.stage = Stage.BETWEEN
        self.wants_continue = False
        """The client waits for `100 Continue` before it sends the body; the reader resets it."""
        self._limits = limits
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._lines: list[tuple[bytes, bytes]] = []
        self._body: bytes | bytearray = b""
        self._wire_bytes = 0
        self._upgrading = False

    def feed(self, data: bytes) -> bytes:
        """Parse until at least one request is complete, and give back what was not looked at."""
        if len(data) <= _SLICE:
            self._feed(data)
            return b""
        for offset in range(0, len(data), _SLICE):
            self._feed(data[offset : offset + _SLICE])
            if self.requests or self.refusal:
                return data[offset + _SLICE :]
        return b""

    def _feed(self, data: bytes) -> None:
        if self.refusal is not None:
            return
        self._wire_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._fail(error)
        if self._wire_bytes > self._limits.max_header_bytes + _SLICE:
            self._check_wire()

    def _check_wire(self) -> None:
        """Bound what has no other bound: a head without an end, chunk extensions, trailers.

        Chunks of one byte, the worst a sane client sends, take 6 bytes each.
        """
        beyond = self._wire_bytes - self._limits.max_header_bytes - _SLICE
        if self.refusal is None and (self.stage is Stage.HEAD or beyond > 8 * len(self._body)):
            self.refusal = self._too_large()

    def _fail(self, error: Exception) -> None:
        if self.refusal is not None:
            return
        version = self._parser.get_http_version()
        if version not in ("1.1", "1.0", "0.0"):
            self.refusal = Refusal(505, "http_version", f"HTTP/{version} is not spoken here; use HTTP/1.1")
        else:
            self.refusal = Refusal(400, "bad_request", f"malformed HTTP request: {error}")

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Parse the request again without its `upgrade` header, which a server may ignore (some clients offer h2c).

        llhttp takes all that follows such a head for another protocol and does not see the body.
        """
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b\r\n" % (method, self._url, version)]
        lines += [b"%b: %b\r\n" % header for header in self._lines if header[0] != b"upgrade"]
        self._parser = httptools.HttpRequestParser(self)
        self._feed(b"".join(lines) + b"\r\n")
        self._feed(rest)

    # Called by llhttp ---------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.stage = Stage.HEAD
        self._url = b""
        self._lines = []
        self._body = b""
        self._wire_bytes = 0
        self._upgrading = False

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer, which is dropped with the list it goes to."""
        self._lines.append((name.lower(), value.rstrip()))

    def on_headers_complete(self) -> None:
        """Decide whether the body is wanted at all."""
        if self._parser.get_method() not in _METHODS:
            self._refuse(501, "not_implemented", "this method is not supported")
        if self._parser.should_upgrade():
            self._upgrading = True
            return
        self._check_head(self._parser.get_http_version())
        self._headers, self._lines = self._lines, []
        self.stage = Stage.BODY

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body, de-chunked."""
        if not self._body:
            self._body = data
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += data
        if len(self._body) > self._limits.max_body_bytes:
            self._refuse(*self._body_too_large())

    def on_message_complete(self) -> None:
        """Hand the request out."""
        if self._upgrading:
            return
        path, _, query = self._url.decode("ascii").partition("?")
        self.requests.append(
            Request(
                method=self._parser.get_method().decode("ascii"),
                path=path,
                query=query,
                headers=self._headers,
                body=bytes(self._body),
                version=self._parser.get_http_version(),
                keep_alive=self._parser.should_keep_alive(),
            )
        )
        self.stage = Stage.BETWEEN
        self.wants_continue = False

    # Checks -------------------------------------------------------------------------------------------

    def _check_head(self, version: str) -> None:
        if version not in ("1.1", "1.0"):
            self._refuse(505, "http_version", f"HTTP/{version} is not spoken here; use HTTP/1.1")
        size, hosts = len(self._url), 0
        for name, value in self._lines:
            size += len(name) + len(value) + 4
            if name in _WATCHED:
                hosts += name == b"host"
                self._check_header(name, value, version)
        if size > self._limits.max_header_bytes or len(self._lines) > self._limits.max_headers:
            self._refuse(*self._too_large())
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            self._refuse(400, "bad_request", "an HTTP/1.1 request has exactly one host header")
        self._url = self._target(self._url)

    def _check_header(self, name: bytes, value: bytes, version: str) -> None:
        if name == b"content-length" and int(value) > self._limits.max_body_bytes:
            self._refuse(*self._body_too_large())
        if name == b"transfer-encoding":
            if version == "1.0":
                self._refuse(400, "bad_request", "transfer-encoding does not exist in HTTP/1.0")
            if value.lower() != b"chunked":
                self._refuse(501, "not_implemented", "the only transfer coding supported is chunked")
        if name == b"expect" and version == "1.1":
            if value.lower() != b"100-continue":
                self._refuse(417, "expectation_failed", "the only expectation supported is 100-continue")
            self.wants_continue = True

    def _target(self, url: bytes) -> bytes:
        """Give the origin form of a target; the absolute form must be accepted (RFC 9112, 3.2.2)."""
        if url[:7].lower() == b"http://":
            _, slash, path = url[7:].partition(b"/")
            url = slash + path if slash else b"/"
        if b"#" in url or not (url.startswith(b"/") or (url == b"*" and self._parser.get_method() == b"OPTIONS")):
            self._refuse(400, "bad_request", "the request target must be a path")
        return url

    def _too_large(self) -> Refusal:
        limits = self._limits
        text = f"request line and headers exceed {limits.max_header_bytes} bytes or {limits.max_headers} lines"
        return Refusal(431, "headers_too_large", text)

    def _body_too_large(self) -> Refusal:
        return Refusal(413, "body_too_large", f"the body exceeds {self._limits.max_body_bytes} bytes")

    def _refuse(self, status: int, code: str, message: str) -> None:
        self.refusal = Refusal(status, code, message)
        raise Stop
