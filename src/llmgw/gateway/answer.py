"""An engine's answer on its way to the client: a stream passed on, a plain answer handed over, one put together."""

import time
from collections.abc import Callable

import msgspec

from llmgw.gateway.ask import Ask
from llmgw.gateway.assemble import Assembler, Incomplete
from llmgw.gateway.call import Call
from llmgw.gateway.errors import EngineError, error_event, from_engine
from llmgw.gateway.guard.beside import Beside
from llmgw.gateway.guard.guarded import Guarded
from llmgw.gateway.guard.held_stream import HeldStream
from llmgw.gateway.guard.plain_answer import PlainAnswer
from llmgw.gateway.sse import EventSplitter, StreamFilter, events, payload
from llmgw.relay.errors import AnswerTooLarge, UpstreamBroken, UpstreamError, UpstreamTimeout
from llmgw.relay.forward import pipe
from llmgw.relay.upstream import UpstreamResponse
from llmgw.schema.engine import EngineKind

MAX_PLAIN_BYTES = 256 * 1024 * 1024
"""A plain answer is held whole, so that one that breaks can still become an error. Large batches of embeddings fit."""
MAX_ERROR_BYTES = 1024 * 1024

_EVENT_STREAM = b"text/event-stream"
_JSON = b"application/json"


class Answerer:
    """Hands answers on. `idle_timeout_s` is how long an engine may be silent within one."""

    def __init__(self, *, idle_timeout_s: float) -> None:
        self._idle_s = idle_timeout_s

    async def error(self, response: UpstreamResponse) -> EngineError:
        """Read an engine's error and give it in OpenAI's shape."""
        try:
            body = await response.read(MAX_ERROR_BYTES, idle_timeout_s=self._idle_s)
        except AnswerTooLarge:  # engines quote what they were asked
            body = b""
        return from_engine(response.status, body)

    async def give(self, call: Call, ask: Ask, kind: str, response: UpstreamResponse) -> None:
        """Answer the client. Raises `UpstreamError` only while nothing has gone out: another replica may be asked."""
        call.meter.begin(per_choice=kind == EngineKind.LLAMACPP)
        streamed = (response.header(b"content-type") or b"").startswith(_EVENT_STREAM)
        if not streamed:
            await self._plain(call, ask, response)
        elif ask.streams or ask.chat is None:
            await self._stream(call, ask, response)
        else:
            await self._assembled(call, ask, response, Assembler(chat=ask.chat))

    async def _plain(self, call: Call, ask: Ask, response: UpstreamResponse) -> None:
        body = await response.read(MAX_PLAIN_BYTES, idle_timeout_s=self._idle_s)
        call.meter.read(body)
        kind = response.header(b"content-type") or _JSON
        if ask.guard is None:
            call.respond(response.status, [(b"content-type", kind)], body)
        else:
            ask.guard.later(PlainAnswer(ask.guard, response.status, kind, body).give)

    async def _stream(self, call: Call, ask: Ask, response: UpstreamResponse) -> None:
        exchange = call.exchange
        await response.begun()
        guard = ask.guard
        if guard is not None and guard.rules.holds_output:
            await self._held(call, ask, response, guard)
            return
        if guard is not None:
            await guard.opened()
        # From here on the client is promised an answer: what breaks now is told within the stream.
        call.status = response.status
        watched = StreamFilter(call.meter, drop_usage=not ask.wants_usage, on_first=call.first_token, on_gap=call.gap)
        headers = _stream_headers(call, response)
        transform: Callable[[bytes], bytes] = watched
        if guard is not None:
            headers.append(guard.header())
            transform = Beside(guard, watched) if guard.rules.output else watched
        try:
            await pipe(response, exchange, headers=headers, transform=transform, idle_timeout_s=self._idle_s)
        except UpstreamError as error:
            if watched.done:
                exchange.end()
                return
            timed_out = isinstance(error, UpstreamTimeout)
            call.status = 504 if timed_out else 502
            code = "upstream_timeout" if timed_out else "upstream_error"
            what = "the engine fell silent" if timed_out else "the engine broke"
            exchange.write(error_event(f"{what} before its answer was complete", code=code))
            exchange.end()

    async def _held(self, call: Call, ask: Ask, response: UpstreamResponse, guard: Guarded) -> None:
        """Pass a stream on as the rules let it; what is still held when the engine is done comes later."""
        watched = StreamFilter(call.meter, drop_usage=not ask.wants_usage, on_first=call.computed, on_gap=call.gap)
        held = HeldStream(guard, response, watched, _stream_headers(call, response), usage=ask.wants_usage)
        guard.later(held.run, held.flush)
        await held.take(idle_timeout_s=self._idle_s)

    async def _assembled(self, call: Call, ask: Ask, response: UpstreamResponse, assembler: Assembler) -> None:
        splitter = EventSplitter()
        last = 0.0
        async for piece in response.chunks(idle_timeout_s=self._idle_s):
            now = time.monotonic()
            if call.first_token_at is not None and call.gap is not None:
                call.gap(now - last)
            last = now
            for event in events(splitter.feed(piece)):
                data = payload(event)
                if data is None:
                    continue
                if call.first_token_at is None:
                    call.first_token()
                if b'"usage"' in data:
                    call.meter.read(data)
                _add(assembler, data, response)
        try:
            body = assembler.result()
        except Incomplete as error:
            raise UpstreamBroken("the stream ended too early", answer_bytes=response.body_bytes) from error
        if ask.guard is None:
            call.respond(200, [(b"content-type", _JSON)], body)
        else:
            ask.guard.later(PlainAnswer(ask.guard, 200, _JSON, body).give)


def _stream_headers(call: Call, response: UpstreamResponse) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", response.header(b"content-type") or _EVENT_STREAM),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        (b"x-request-id", call.request_id),
    ]


def _add(assembler: Assembler, data: bytes, response: UpstreamResponse) -> None:
    try:
        assembler.add(data)
    except msgspec.DecodeError as error:
        raise UpstreamBroken("the stream holds what is no chunk", answer_bytes=response.body_bytes) from error
