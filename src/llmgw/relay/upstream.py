"""The client side: pooled keep-alive connections to upstreams, HTTP/1.1 without TLS."""

from collections.abc import Sequence
from dataclasses import dataclass

from llmgw.relay.response import UpstreamResponse

__all__ = ["Endpoint", "UpstreamPool", "UpstreamResponse"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an upstream listens."""

    host: str
    port: int

    @classmethod
    def from_url(cls, url: str) -> "Endpoint":
        """Take host and port (default 80) of an `http://` URL; its path is ignored. Raises `InvalidInput`."""
        raise NotImplementedError


class UpstreamPool:
    """Connections of one process to all its upstreams.

    `idle_s` must stay below the upstream's own keep-alive time: llama.cpp closes after 5 s.
    """

    def __init__(self, *, connect_timeout_s: float = 2.0, idle_s: float = 4.0, max_idle_per_endpoint: int = 64) -> None:
        raise NotImplementedError

    async def request(
        self,
        endpoint: Endpoint,
        *,
        method: str,
        path: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        first_byte_timeout_s: float,
    ) -> UpstreamResponse:
        """Send a request and wait for the head of its answer.

        `path` may carry a query. Hop-by-hop headers, `host`, `content-length` and `expect` in `headers` are replaced or
        left out. A pooled connection that turns out stale before any byte of an answer is re-dialled once.

        Raises `UpstreamUnreachable` (nothing was sent), `UpstreamBroken`, `UpstreamTimeout`. Cancelling the awaiting
        task closes the connection at once.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Drop all connections."""
        raise NotImplementedError
