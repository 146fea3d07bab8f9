"""An upstream's answer."""

from collections.abc import AsyncIterator


class UpstreamResponse:
    """The head has come; the body comes as it comes. Use one of `chunks`, `read` or `forward.pipe`, then it is done."""

    status: int
    headers: list[tuple[bytes, bytes]]
    """Lower-case names, in order; hop-by-hop and framing headers are left out."""
    content_length: int | None
    """Declared length of the body; `None` when it is chunked or ends with the connection."""
    body_bytes: int
    """Bytes of the body seen so far."""
    complete: bool
    """The whole body has arrived at this process (parts of it may wait to be read)."""

    def header(self, name: bytes) -> bytes | None:
        """Give the first value of a header by its lower-case name."""
        raise NotImplementedError

    def chunks(self, *, idle_timeout_s: float | None = None) -> AsyncIterator[bytes]:
        """Give the body as it comes, de-chunked. A consumer that is slow pauses the upstream.

        Raises `UpstreamBroken`, and `UpstreamTimeout` after `idle_timeout_s` without a byte. Leaving the loop early
        does not close the connection: call `close` in a `finally`.
        """
        raise NotImplementedError

    async def read(self, limit: int, *, idle_timeout_s: float | None = None) -> bytes:
        """Read the whole body. Raises as `chunks` does, and `AnswerTooLarge` beyond `limit` bytes."""
        raise NotImplementedError

    def close(self) -> None:
        """Drop the connection at once, unless the answer is complete (then it is back in the pool). Idempotent."""
        raise NotImplementedError
