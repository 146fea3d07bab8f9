"""One request and its answer on a client connection."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from llmgw.relay.request import Request

Headers = Sequence[tuple[bytes, bytes]]


class Exchange:
    """What a handler answers with. Either `respond`, or `start`, `write`…, `end`.

    The relay decides framing (content-length, chunked, close-delimited for HTTP/1.0), adds `date` and `connection`, and
    drops framing and hop-by-hop headers found in `headers`. Bodies are left out for HEAD, 204 and 304. After the client
    left, all writing is a no-op: nothing here raises for it but `drain`.

    A client that shuts down its sending side once its request is complete counts as gone: no API client does that, and
    a vanished client looks the same on the wire.
    """

    request: Request
    started: bool
    """A byte of the answer's head went out: no other status can be given any more."""
    ended: bool
    gone: bool
    """The client left before `end`."""

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Call `callback` at once when the client leaves before `end` (now, if it has); at most once, on the loop."""
        raise NotImplementedError

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer and end."""
        raise NotImplementedError

    def start(self, status: int, headers: Headers, *, content_length: int | None = None) -> None:
        """Send the head. `content_length` when the body's length is known beforehand; then `write` must keep to it."""
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        """Send a piece of the body at once; an empty one sends nothing. Await `drain` in loops."""
        raise NotImplementedError

    async def drain(self) -> None:
        """Wait until the client has taken most of what was written. Raises `ClientGone` when it left."""
        raise NotImplementedError

    def end(self) -> None:
        """End the answer. Idempotent. Fewer bytes than declared break the connection."""
        raise NotImplementedError

    def abort(self) -> None:
        """Break the connection, so that a cut answer is seen as cut. No `on_gone` callback is called by it."""
        raise NotImplementedError


Handler = Callable[[Exchange], Coroutine[Any, Any, None]]
"""Answers one exchange. Returning or raising before `end`: 500 if nothing was sent (502 or 504 for an `UpstreamError`),
else the connection is broken. It is not cancelled when the client leaves: use `on_gone`."""
