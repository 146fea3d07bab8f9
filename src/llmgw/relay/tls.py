"""TLS on either side of the relay. Who may be at the other end is for the caller to say.

A TLS connection has no half close: the end of one side ends both. A caller that leaves early and wants to know when its
request was let go of therefore says so within the stream (`LEAVING`), and the end of the connection is the answer.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass

HANDSHAKE_S = 10.0
"""Seconds a client has for its handshake."""
SHUTDOWN_S = 30.0
"""Seconds a peer has to take what was written and to answer the end of a connection; then the connection is dropped."""
BUFFER_BYTES = 64 * 1024
"""Bytes written and not yet taken, as without TLS (there it is asyncio's default) before the writer is paused."""
KNOWN_S = 3600.0
"""Seconds after which a peer that had to show a certificate connects anew: one that ended is not taken for longer."""
LEAVING = b"-"
"""Sent within an answer: its caller left. No request begins with it, and one byte cannot come in parts."""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """TLS of a listener. `refuse` gives why a peer is turned away, from its certificate; `None` lets it in.

    With `refuse`, callers are parts of the same cluster: they do not send a request before the last one is answered,
    and say `LEAVING`. Without, callers are anybody.
    """

    context: ssl.SSLContext
    refuse: Callable[[ssl.SSLObject], str | None] | None = None


@dataclass(frozen=True, slots=True)
class ClientTls:
    """TLS of a pool. `refuse` gives why the peer that answered is not the one of that name; `None`: it is."""

    context: ssl.SSLContext
    refuse: Callable[[ssl.SSLObject, str], str | None]
