"""The client side: pooled keep-alive connections to upstreams, HTTP/1.1, with TLS where an upstream's name is known."""

import asyncio
import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from llmgw.relay.carrier import Stale, UpstreamConnection
from llmgw.relay.errors import UpstreamBroken, UpstreamUnreachable
from llmgw.relay.hop_by_hop import not_forwarded
from llmgw.relay.response import UpstreamResponse
from llmgw.relay.sweep import Sweep
from llmgw.relay.tls import SHUTDOWN_S, ClientTls
from llmgw.schema.errors import InvalidInput

__all__ = ["Endpoint", "UpstreamPool", "UpstreamResponse"]

_REPLACED = frozenset((b"host", b"expect"))


_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an upstream listens."""

    host: str
    port: int
    peer: str | None = None
    """The name its certificate must show; `None`: it is asked without TLS."""

    @classmethod
    def from_url(cls, url: str, *, peer: str | None = None) -> "Endpoint":
        """Take host and port (default 80) of an `http://` URL; its path is ignored. Raises `InvalidInput`.

        With `peer`, `https://` (default port 443) is taken as well, and asked with TLS.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError:
            parts, host, port = urlsplit(""), None, 0
        secure = parts.scheme == "https" and bool(peer)
        if (parts.scheme != "http" and not secure) or not host:
            raise InvalidInput(
                f"{url!r} is not the URL of an upstream", hint="write http://host:port", field="endpoint"
            )
        return cls(host, port, peer if secure else None)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class UpstreamPool:
    """Connections of one process to all its upstreams. `tls` is for those that have a name (`Endpoint.peer`).

    `idle_s` must stay below the upstream's own keep-alive time: llama.cpp closes after 5 s.
    """

    def __init__(
        self,
        *,
        connect_timeout_s: float = 2.0,
        idle_s: float = 4.0,
        max_idle_per_endpoint: int = 64,
        tls: ClientTls | None = None,
    ) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._idle_s = idle_s
        self._max_idle = max_idle_per_endpoint
        self._idle: dict[str, deque[UpstreamConnection]] = {}
        self._open: set[UpstreamConnection] = set()
        self._sweep = Sweep()
        self._tls = tls
        self._closing = False

    async def request(
        self,
        endpoint: Endpoint,
        *,
        method: str,
        path: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        first_byte_timeout_s: float,
        linger_s: float = 0.0,
    ) -> UpstreamResponse:
        """Send a request and wait for the head of its answer.

        `path` may carry a query. Hop-by-hop headers, `host`, `content-length` and `expect` in `headers` are replaced or
        left out. A pooled connection that turns out stale before any byte of an answer is re-dialled once.

        Raises `UpstreamUnreachable` (nothing was sent), `UpstreamBroken`, `UpstreamTimeout`. Cancelling the awaiting
        task closes the connection at once.

        With `linger_s` only our side of it is closed, which ends work at the upstream as well, and the task ends (and
        `UpstreamResponse.left` returns) once the upstream closed its own side: then it has let go. After so many
        seconds without that the connection is dropped.
        """
        name = str(endpoint)
        wire = _render(name, method, path, headers, body)
        if endpoint.peer is not None:
            name = f"{endpoint.peer} at {name}"
        head_only = method == "HEAD"
        connection = self._take(name)
        if connection is not None:
            try:
                return await connection.send(
                    wire, head_only=head_only, timeout_s=first_byte_timeout_s, linger_s=linger_s
                )
            except Stale:
                pass
        connection = await self._dial(endpoint, name)
        try:
            return await connection.send(wire, head_only=head_only, timeout_s=first_byte_timeout_s, linger_s=linger_s)
        except Stale as error:
            raise UpstreamBroken(f"{error}, before answering", answer_bytes=0) from error

    def close(self) -> None:
        """Drop all connections."""
        self._closing = True
        for connection in tuple(self._open):
            connection.transport.abort()

    # For connections ----------------------------------------------------------------------------------

    def opened(self, connection: UpstreamConnection) -> None:
        """Watch a new connection."""
        connection.allow_silence(self._idle_s)
        self._open.add(connection)
        self._sweep.add(connection)

    def released(self, connection: UpstreamConnection) -> bool:
        """Take a connection back whose answer is complete; False when it is not wanted."""
        idle = self._idle.setdefault(connection.name, deque())
        if self._closing or len(idle) >= self._max_idle:
            return False
        connection.allow_silence(self._idle_s)
        idle.append(connection)
        return True

    def closed(self, connection: UpstreamConnection) -> None:
        """Forget a connection."""
        self._open.discard(connection)
        self._sweep.discard(connection)
        idle = self._idle.get(connection.name)
        if idle is None:
            return
        if connection in idle:
            idle.remove(connection)
        if not idle:
            del self._idle[connection.name]

    # --------------------------------------------------------------------------------------------------

    def _take(self, name: str) -> UpstreamConnection | None:
        """Take the connection used last: the others may age out."""
        idle = self._idle.get(name)
        if not idle:
            return None
        now = asyncio.get_running_loop().time()
        while idle:
            connection = idle.pop()
            if now < connection.deadline and not connection.transport.is_closing():
                return connection
            connection.drop()
        return None

    async def _dial(self, endpoint: Endpoint, name: str) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                if endpoint.peer is not None:
                    return await self._dial_tls(endpoint, endpoint.peer, name)
                _, connection = await loop.create_connection(
                    lambda: UpstreamConnection(self, name), endpoint.host, endpoint.port
                )
        except TimeoutError as error:
            raise UpstreamUnreachable(f"upstream {name} took no connection in {self._connect_timeout_s:g} s") from error
        except OSError as error:
            raise UpstreamUnreachable(f"cannot connect to upstream {name}: {error.strerror or error}") from error
        return connection

    async def _dial_tls(self, endpoint: Endpoint, peer: str, name: str) -> UpstreamConnection:
        """Dial, and look who is there before a byte of a request is sent."""
        tls = self._tls
        if tls is None:
            raise UpstreamUnreachable(f"upstream {name} wants TLS, which this process is not set up for")
        transport, connection = await asyncio.get_running_loop().create_connection(
            lambda: UpstreamConnection(self, name, tls=True),
            endpoint.host,
            endpoint.port,
            ssl=tls.context,
            server_hostname="",  # names are those of the cluster, checked below
            ssl_shutdown_timeout=SHUTDOWN_S,
        )
        why = tls.refuse(cast("ssl.SSLObject", transport.get_extra_info("ssl_object")), peer)
        if why is not None:
            connection.drop()
            raise UpstreamUnreachable(f"upstream {name} is refused: {why}")
        return connection


def _render(name: str, method: str, path: str, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bytes:
    """Write a request anew: nothing of the client's framing or connection gets through."""
    dropped = not_forwarded(b",".join([value for key, value in headers if key == b"connection"]))
    parts = [f"{method} {path} HTTP/1.1\r\nhost: {name}\r\n".encode("ascii")]
    parts += [b"%b: %b\r\n" % header for header in headers if header[0] not in dropped and header[0] not in _REPLACED]
    if body or method in ("POST", "PUT", "PATCH"):
        parts.append(b"content-length: %d\r\n" % len(body))
    head = b"".join(parts)
    if head.count(b"\n") != len(parts) + 1 or path.count(" ") or not path.startswith("/"):
        raise ValueError("a line break within a header, or a path that is none")
    return b"%b\r\n%b" % (head, body)
