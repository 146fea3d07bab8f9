"""The server side: HTTP/1.1 on a listening socket."""

import socket
from collections.abc import Callable

from llmgw.relay.exchange import Handler
from llmgw.relay.limits import Limits


class HttpServer:
    """Serves `handler`, one task per request.

    `error(status, code, message)` renders the JSON body of errors the relay answers by itself. Codes: `bad_request`,
    `request_timeout`, `body_too_large`, `headers_too_large`, `uri_too_long`, `expectation_failed`, `not_implemented`,
    `http_version`, `too_many_connections`, `internal`, `upstream_error`, `upstream_timeout`.
    """

    def __init__(self, handler: Handler, limits: Limits, error: Callable[[int, str, str], bytes]) -> None:
        raise NotImplementedError

    @property
    def open_connections(self) -> int:
        """Client connections open now."""
        raise NotImplementedError

    @property
    def open_exchanges(self) -> int:
        """Requests being answered now."""
        raise NotImplementedError

    async def serve(self, sock: socket.socket) -> None:
        """Begin to accept on `sock` (bound; listening or not) and return. May be called for several sockets."""
        raise NotImplementedError

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections go on."""
        raise NotImplementedError

    async def drain(self, timeout_s: float) -> None:
        """Stop accepting, close idle connections, let running answers end; break what is left after `timeout_s`."""
        raise NotImplementedError

    def close(self) -> None:
        """Break everything at once and cancel handlers."""
        raise NotImplementedError
