"""One client connection: requests in, one exchange at a time, answers in order."""

import asyncio
import socket
import struct
from typing import Protocol, cast

from llmgw.relay.exchange import Exchange
from llmgw.relay.limits import Limits
from llmgw.relay.parser import Refusal, RequestParser, Stage
from llmgw.relay.request import Request
from llmgw.relay.sweep import NEVER
from llmgw.relay.tls import BUFFER_BYTES, KNOWN_S, LEAVING, ServerTls
from llmgw.telemetry import log

_MAX_AHEAD = 64 * 1024
"""Bytes of further requests held while one is answered; then the client is not read until its turn."""
_LINGER_S = 2.0
"""Seconds a refused client may go on sending: closing at once would reset the connection and lose the refusal."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_TCP_INFO = 11
_CLOSED_BY_PEER = (7, 8)
"""TCP states CLOSE and CLOSE_WAIT, first byte of `tcp_info`."""

_LOG = log.get(__name__)


class Host(Protocol):
    """What a connection needs of its server."""

    limits: Limits
    draining: bool

    def date(self) -> bytes:
        """Give the `date` header line."""

    def opened(self, connection: "ClientConnection") -> bool:
        """Count a connection in; False when there are too many."""

    def closed(self, connection: "ClientConnection") -> None:
        """Count a connection out."""

    def answer(self, exchange: Exchange) -> None:
        """Run the handler."""

    def refuse(self, exchange: Exchange, refusal: Refusal) -> None:
        """Answer with an error."""


class ClientConnection(asyncio.Protocol):
    """Reads on while a request is answered, so that a client that leaves is noticed at once."""

    transport: asyncio.Transport

    def __init__(self, host: Host, tls: ServerTls | None = None) -> None:
        self._host = host
        self._tls = tls
        self._says_leaving = tls is not None and tls.refuse is not None
        self._loop = asyncio.get_running_loop()
        self._parser = RequestParser(host.limits)
        self._stage = Stage.BETWEEN
        self._fresh = True
        """No request came on it yet."""
        self._exchange: Exchange | None = None
        self._ahead = b""
        self._held = False
        """Reading is paused: too much lies ahead."""
        self._lingering = False
        self._paused = False
        self._deadline = NEVER
        self._known_until = NEVER
        """When the peer's certificate is to be looked at anew."""

    @property
    def idle(self) -> bool:
        """No request is being received or answered."""
        return self._exchange is None and self._parser.stage is Stage.BETWEEN

    def date(self) -> bytes:
        """Give the `date` header line."""
        return self._host.date()

    # Called by the transport --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or refuse when there are too many connections."""
        self.transport = cast("asyncio.Transport", transport)
        self._deadline = self._loop.time() + self._host.limits.header_timeout_s
        if self._tls is not None and not self._admit(self._tls):
            return
        if not self._host.opened(self):
            self._refuse(Refusal(503, "too_many_connections", "too many open connections; try again shortly"))

    def data_received(self, data: bytes) -> None:
        """Take bytes of the current request, or hold those of a later one."""
        if self._lingering:
            return
        if self._exchange is None:
            self._take(data)
            return
        self._ahead += data
        if self._says_leaving:
            self._caller_left()
            return
        if len(self._ahead) > _MAX_AHEAD and not self._held:
            self._held = True
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        """Note that the client left (or shut down its sending side, which is taken for the same)."""
        return self._caller_left() and self._tls is None  # TLS ends both sides

    def connection_lost(self, _error: Exception | None) -> None:
        """Note that the connection is gone."""
        self._leave()
        self._deadline = NEVER
        self._host.closed(self)

    def pause_writing(self) -> None:
        """Tell the answer's source to wait; a client that takes nothing for long is given up."""
        self._paused = True
        if self._exchange is not None:
            self._deadline = self._loop.time() + self._host.limits.keep_alive_s
            self._exchange.pause()

    def resume_writing(self) -> None:
        """Tell the answer's source to go on."""
        self._paused = False
        if self._exchange is not None:
            self._deadline = NEVER
            self._exchange.resume()

    # Called by the server -----------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Act on a deadline that passed."""
        if self._held and self._left_unseen():
            self.transport.abort()
            return
        if now < self._deadline:
            return
        self._deadline = NEVER
        if self._lingering or self._exchange is not None or self.transport.get_write_buffer_size():
            self.transport.abort()
        elif self._stage is Stage.BETWEEN:
            self.transport.close()
        else:
            what = "headers" if self._stage is Stage.HEAD else "body"
            self._refuse(Refusal(408, "request_timeout", f"the request's {what} did not arrive in time"))

    def stop(self) -> None:
        """End after the current request; at once when there is none."""
        if self._exchange is not None:
            self._exchange.keep_alive = False
        elif self.idle and not self._lingering:
            self.transport.close()

    def ended(self, exchange: Exchange) -> None:
        """Go on with the next request."""
        self._exchange = None
        if self._lingering:
            # With TLS the end of our side would end the client's too: it sees the refusal's end by its length.
            if self._tls is None and not self.transport.is_closing():
                self.transport.write_eof()
            return
        self._deadline = self._loop.time() + self._host.limits.keep_alive_s
        if not exchange.keep_alive or self._host.draining:
            self.transport.close()
            return
        if self._held:
            self._held = False
            self.transport.resume_reading()
        if self._parser.requests:
            self._begin(self._parser.requests.popleft())
        else:
            data, self._ahead = self._ahead, b""
            self._take(data)

    # --------------------------------------------------------------------------------------------------

    def _admit(self, tls: ServerTls) -> bool:
        """Look at the certificate; close the connection of a peer that is turned away."""
        self.transport.set_write_buffer_limits(BUFFER_BYTES)
        why = None if tls.refuse is None else tls.refuse(self.transport.get_extra_info("ssl_object"))
        if why is None:
            if tls.refuse is not None:
                self._known_until = self._loop.time() + KNOWN_S
            return True
        _LOG.warning("tls.peer_refused", peer=_host(self.transport), reason=why)
        self._lingering = True  # what came with the handshake is not read
        self.transport.abort()
        return False

    def _caller_left(self) -> bool:
        """Note that the caller left; False when the connection is done with, True when it stays for the handler."""
        exchange = self._exchange
        if exchange is None or not exchange.stays:
            self._leave()
            return False
        exchange.client_left()
        return True

    def _take(self, data: bytes) -> None:
        if self._says_leaving and data == LEAVING:
            self.transport.close()  # it left in the moment its answer was complete
            return
        parser = self._parser
        rest = parser.feed(data) if data else b""
        if parser.requests:
            self._ahead = rest + self._ahead
            self._begin(parser.requests.popleft())
        elif parser.refusal is not None:
            self._refuse(parser.refusal)
        elif parser.stage is not self._stage:
            self._advance(parser.stage)

    def _advance(self, stage: Stage) -> None:
        self._stage = stage
        limits = self._host.limits
        if stage is Stage.BODY:
            self._deadline = self._loop.time() + limits.body_timeout_s
            if self._parser.wants_continue:
                self._parser.wants_continue = False
                self.transport.write(_CONTINUE)
        elif not self._fresh:
            # A fresh connection's time for its first head runs from its opening.
            self._deadline = self._loop.time() + limits.header_timeout_s

    def _begin(self, request: Request) -> None:
        self._fresh = False
        self._stage = Stage.BETWEEN
        self._deadline = NEVER
        self._exchange = exchange = Exchange(request, self)
        if self._paused:
            exchange.pause()
        if self._host.draining or self._loop.time() > self._known_until:
            exchange.keep_alive = False
        self._host.answer(exchange)
        if self._says_leaving and (self._ahead or self._parser.refusal):
            self._caller_left()

    def _refuse(self, refusal: Refusal) -> None:
        """Answer with an error and end the connection."""
        exchange = Exchange(Request(method="GET", path="/", query="", headers=[], keep_alive=False), self)
        self._lingering = True
        self._deadline = self._loop.time() + _LINGER_S
        self._host.refuse(exchange, refusal)

    def _leave(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        exchange.client_left()
        self.transport.abort()

    def _left_unseen(self) -> bool:
        """Look at the socket of a client that is not read for now.

        A reset shows, and an end does once the kernel has taken all that was sent before it.
        """
        sock: socket.socket | None = self.transport.get_extra_info("socket")
        if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        (state,) = struct.unpack("B", sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1))
        return state in _CLOSED_BY_PEER


def _host(transport: asyncio.Transport) -> str | None:
    address = transport.get_extra_info("peername")
    return str(address[0]) if address else None
