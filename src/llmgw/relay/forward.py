"""An upstream's answer to a client, without a task wake-up per chunk."""

import asyncio
from collections.abc import Callable, Sequence

from llmgw.relay.answering import Answering
from llmgw.relay.errors import ClientGone, UpstreamError
from llmgw.relay.response import UpstreamResponse


async def pipe(
    response: UpstreamResponse,
    exchange: Answering,
    *,
    headers: Sequence[tuple[bytes, bytes]],
    transform: Callable[[bytes], bytes] | None = None,
    idle_timeout_s: float,
) -> None:
    """Start the exchange with the response's status and `headers`, forward the body as it comes, end both.

    An exchange that was started already keeps its head.

    `transform` sees each piece of the body as it came off the wire and gives what to send instead (`b""`: nothing
    yet); at the end of the body it is called once more with `b""` for what it held back. Without it the declared length
    is kept.

    Raises `ClientGone` (the upstream is closed by then, at the moment the client left), `UpstreamBroken`,
    `UpstreamTimeout`; the exchange is then neither ended nor aborted: the handler may still write an error frame and
    `end`, or just let the error out, which breaks the client's connection. An exception of `transform` comes out as it
    is. Cancelling closes the upstream.
    """
    if response.intact and transform is None and exchange.request.method != "HEAD":
        exchange.respond(response.status, headers, response.take())
        return
    flow = _Flow(response, exchange, transform or _as_it_is)
    length = response.content_length if transform is None else None
    if not exchange.started:
        exchange.start(response.status, headers, content_length=length)
    if not response.complete:
        response.allow_silence(idle_timeout_s)
    exchange.on_gone(flow.gone)
    if not exchange.gone:
        response.into(flow, exchange.write if transform is None else flow.data)
        exchange.source = response
        if exchange.paused:
            response.pause()
    try:
        await flow.done
    finally:
        exchange.source = None
        response.close()


class _Flow:
    """One body on its way; called from both connections' callbacks."""

    def __init__(self, response: UpstreamResponse, exchange: Answering, transform: Callable[[bytes], bytes]) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._response = response
        self._exchange = exchange
        self._write = exchange.write
        self._transform = transform

    def data(self, piece: bytes) -> None:
        """Send what the transform makes of a piece; runs for each chunk."""
        try:
            self._write(self._transform(piece))
        except Exception as error:  # noqa: BLE001 -- whatever a transform raises belongs to the awaiting handler
            self._response.close()
            self.done.set_exception(error)

    def finish(self) -> None:
        if not self.done.done():
            self.data(b"")
        if not self.done.done():
            self._exchange.end()
            self.done.set_result(None)

    def fail(self, error: UpstreamError) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def gone(self) -> None:
        self._response.close()
        if not self.done.done():
            self.done.set_exception(ClientGone("the client left before its answer was complete"))


def _as_it_is(piece: bytes) -> bytes:
    return piece
