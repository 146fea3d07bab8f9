"""An upstream's answer to a client, without a task wake-up per chunk."""

from collections.abc import Callable, Sequence

from llmgw.relay.exchange import Exchange
from llmgw.relay.response import UpstreamResponse


async def pipe(
    response: UpstreamResponse,
    exchange: Exchange,
    *,
    headers: Sequence[tuple[bytes, bytes]],
    transform: Callable[[bytes], bytes] | None = None,
    idle_timeout_s: float,
) -> None:
    """Start the exchange with the response's status and `headers`, forward the body as it comes, end both.

    `transform` sees each piece of the body as it came off the wire and gives what to send instead (`b""`: nothing
    yet); at the end of the body it is called once more with `b""` for what it held back. Without it the declared length
    is kept.

    Raises `ClientGone` (the upstream is closed by then, at the moment the client left), `UpstreamBroken`,
    `UpstreamTimeout`; the exchange is then neither ended nor aborted: the handler may still write an error frame and
    `end`, or just let the error out, which breaks the client's connection. An exception of `transform` comes out as it
    is. Cancelling closes the upstream.
    """
    raise NotImplementedError
