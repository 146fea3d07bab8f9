"""The server side: HTTP/1.1 on a listening socket."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from email.utils import formatdate

from llmgw.relay.connection import ClientConnection
from llmgw.relay.errors import ClientGone, UpstreamError, UpstreamTimeout
from llmgw.relay.exchange import Exchange, Handler, Headers
from llmgw.relay.limits import Limits
from llmgw.relay.parser import Refusal
from llmgw.relay.sweep import Sweep
from llmgw.relay.tls import HANDSHAKE_S, SHUTDOWN_S, ServerTls
from llmgw.telemetry import log

_LOG = log.get(__name__)
_BACKLOG = 1024
_JSON = [(b"content-type", b"application/json")]


class HttpServer:
    """Serves `handler`, one task per request.

    `error(status, code, message)` renders the JSON body of errors the relay answers by itself. Codes: `bad_request`,
    `request_timeout`, `body_too_large`, `headers_too_large`, `expectation_failed`, `not_implemented`, `http_version`,
    `too_many_connections`, `internal`, `upstream_error`, `upstream_timeout`. `error_headers` gives their further
    headers.
    """

    def __init__(
        self,
        handler: Handler,
        limits: Limits,
        error: Callable[[int, str, str], bytes],
        *,
        error_headers: Callable[[], Headers] = tuple,
    ) -> None:
        self.limits = limits
        self.draining = False
        self._handler = handler
        self._error = error
        self._error_headers = error_headers
        self._listeners: list[asyncio.Server] = []
        self._connections: set[ClientConnection] = set()
        self._answers: set[asyncio.Task[None]] = set()
        self._sweep = Sweep()
        self._date = (0, b"")
        self._empty = asyncio.Event()

    @property
    def open_connections(self) -> int:
        """Client connections open now."""
        return len(self._connections)

    @property
    def open_exchanges(self) -> int:
        """Requests whose handler runs now."""
        return len(self._answers)

    async def serve(self, sock: socket.socket, tls: ServerTls | None = None) -> None:
        """Begin to accept on `sock` (bound; listening or not) and return. May be called for several sockets."""
        loop = asyncio.get_running_loop()
        if tls is None:
            listener = await loop.create_server(lambda: ClientConnection(self), sock=sock, backlog=_BACKLOG)
        else:
            listener = await loop.create_server(
                lambda: ClientConnection(self, tls),
                sock=sock,
                backlog=_BACKLOG,
                ssl=tls.context,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        self._listeners.append(listener)

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections go on."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    async def drain(self, timeout_s: float) -> None:
        """Stop accepting, close idle connections, let running answers end; break what is left after `timeout_s`."""
        self.stop_accepting()
        self.draining = True
        for connection in tuple(self._connections):
            connection.stop()
        self._note_empty()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), timeout_s)
        self.close()
        await asyncio.gather(*self._answers, return_exceptions=True)

    def close(self) -> None:
        """Break everything at once and cancel handlers."""
        self.stop_accepting()
        self.draining = True
        for connection in tuple(self._connections):
            connection.transport.abort()
        for task in tuple(self._answers):
            task.cancel()

    # For connections ----------------------------------------------------------------------------------

    def date(self) -> bytes:
        """Give the `date` header line, rendered once a second."""
        now = int(time.time())
        if now != self._date[0]:
            self._date = (now, f"date: {formatdate(now, usegmt=True)}\r\n".encode())
        return self._date[1]

    def opened(self, connection: ClientConnection) -> bool:
        """Count a connection in; False when there are too many."""
        self._connections.add(connection)
        self._sweep.add(connection)
        return len(self._connections) <= self.limits.max_connections

    def closed(self, connection: ClientConnection) -> None:
        """Count a connection out."""
        self._connections.discard(connection)
        self._sweep.discard(connection)
        self._note_empty()

    def answer(self, exchange: Exchange) -> None:
        """Run the handler."""
        task = asyncio.get_running_loop().create_task(self._answer(exchange))
        self._answers.add(task)
        task.add_done_callback(self._answered)

    def refuse(self, exchange: Exchange, refusal: Refusal) -> None:
        """Answer with an error."""
        body = self._error(*refusal)
        exchange.respond(refusal.status, [*_JSON, *self._error_headers()], body)

    # --------------------------------------------------------------------------------------------------

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answers.discard(task)
        self._note_empty()

    def _note_empty(self) -> None:
        if self.draining and not self._answers and not self._connections:
            self._empty.set()

    async def _answer(self, exchange: Exchange) -> None:
        try:
            await self._handler(exchange)
        except ClientGone:
            return
        except UpstreamTimeout as error:
            self._settle(exchange, Refusal(504, "upstream_timeout", str(error)))
        except UpstreamError as error:
            self._settle(exchange, Refusal(502, "upstream_error", str(error)))
        except Exception:  # noqa: BLE001 -- a handler's bug must answer 500 and leave the server running
            _LOG.exception("handler.failed", path=exchange.request.path)
        finally:
            self._settle(exchange, Refusal(500, "internal", "the request could not be answered"))

    def _settle(self, exchange: Exchange, refusal: Refusal) -> None:
        """End what the handler did not: an error while that is possible, else a broken connection."""
        if exchange.gone and exchange.stays:
            exchange.drop()
        if exchange.ended or exchange.gone:
            return
        if exchange.started:
            exchange.abort()
        else:
            self.refuse(exchange, refusal)
