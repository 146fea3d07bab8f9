"""What one client may take from the relay."""

from llmgw.schema.value import Value


class Limits(Value, frozen=True, kw_only=True):
    """Hard limits of the server side. Times are checked about twice a second, so they may run over by half a second."""

    max_header_bytes: int = 64 * 1024
    """Request line and headers together; beyond it 431."""
    max_headers: int = 200
    max_body_bytes: int = 32 * 1024 * 1024
    """Beyond it 413, before the body is read where its length is declared."""
    header_timeout_s: float = 20.0
    """Seconds from the first byte of a request (or the connection) to the end of its headers; beyond it 408."""
    body_timeout_s: float = 120.0
    """Seconds for the whole body; beyond it 408."""
    keep_alive_s: float = 75.0
    """Seconds an idle connection is kept, and a client may leave what was written to it unread."""
    max_connections: int = 4096
    """Open connections; further ones get 503 and are closed."""
