"""A stream whose text is held back until the rules that must answer did; what they change or end, is changed or ended.

Called from the connection of the engine and from verdicts that come in: no task wakes up per chunk. What goes out goes
out as it came, but for chunks whose text a rule redacts.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from llmgw.core.guard.frame_gate import FrameGate, Held
from llmgw.core.guard.openai_answer import AnswerChannel, AnswerPiece, pieces, with_texts
from llmgw.core.guard.openai_block import closing_chunks
from llmgw.gateway.errors import error_event
from llmgw.gateway.guard.guarded import Guarded
from llmgw.gateway.sse import StreamFilter, events, payload
from llmgw.relay.errors import UpstreamError, UpstreamTimeout
from llmgw.relay.upstream import UpstreamResponse
from llmgw.schema.guard.coverage import Outcome

DONE = b"data: [DONE]\n\n"

_DECODE = msgspec.json.Decoder(dict[str, Any]).decode
_ENCODE = msgspec.json.Encoder().encode
_COMMON = ("id", "object", "created", "model", "system_fingerprint")
Headers = Sequence[tuple[bytes, bytes]]


class Frame(NamedTuple):
    """One event, and what it holds where that is a chunk."""

    event: bytes
    body: dict[str, Any] | None = None
    starts: Mapping[AnswerChannel, int] = {}
    """Where its texts begin in each channel's."""


class HeldStream:
    """One stream on its way. `came` resolves when the engine's part is over, `run` when the client has all it gets."""

    def __init__(
        self, guarded: Guarded, response: UpstreamResponse, watched: StreamFilter, headers: Headers, *, usage: bool
    ) -> None:
        loop = asyncio.get_running_loop()
        self.came: asyncio.Future[None] = loop.create_future()
        self._over: asyncio.Future[None] = loop.create_future()
        self._guarded = guarded
        self._call = guarded.call
        self._response = response
        self._watched = watched
        self._headers = headers
        self._usage = usage
        self._gate: FrameGate[Frame] = FrameGate(guarded.scan)  # type: ignore[arg-type]  # channels here are of one kind
        self._frame: dict[str, Any] = {}
        """What all chunks of this stream have in common."""
        self._seen: set[int] = set()
        self._closed: set[int] = set()
        """Choices that began, and those whose end went out."""
        self._spoken = False
        self._early: list[bytes] = []
        """Frames before the first text: kept while the answer may still become an error of its own."""
        self._ended = False

    async def take(self, *, idle_timeout_s: float) -> None:
        """Take the engine's whole answer, or as much of it as is wanted."""
        exchange, response = self._call.exchange, self._response
        if not response.complete:
            response.allow_silence(idle_timeout_s)
        exchange.source = response
        if exchange.paused:
            response.pause()
        response.into(self, self.data)
        try:
            await self.came
        finally:
            exchange.source = None
            response.close()

    async def run(self) -> None:
        """Wait until the client has all it gets."""
        self.flush()
        await self._over

    def flush(self) -> None:
        """Send what may go out now."""
        if self._guarded.stopped is not None and not self.came.done():
            self._response.close()  # the engine is told at once
            self.came.set_result(None)
        if self._over.done() or self._guarded.waits:
            return
        self._early += [self._rendered(held) for held in self._gate.free()]
        if self._spoken or (self._ended and not len(self._gate)):
            self._write_early()
        if self._guarded.stopped is not None:
            self._stop()
        elif self._ended and not len(self._gate) and self._guarded.settled:
            self._finish()

    # For the engine's connection ----------------------------------------------------------------------

    def data(self, piece: bytes) -> None:
        """Take a piece of the stream."""
        if self.came.done():
            return
        try:
            self._take(self._watched(piece))
            self.flush()
        except Exception as error:  # noqa: BLE001 -- whatever goes wrong belongs to the awaiting handler, not to the relay
            self._response.close()
            if not self.came.done():
                self.came.set_exception(error)

    def finish(self) -> None:
        """Take the end of the stream."""
        self.data(b"")
        self._end()

    def fail(self, error: UpstreamError) -> None:
        """Take the end of a stream that broke: the client hears of it after what may go out."""
        if self.came.done():
            return
        if not self._watched.done:
            timed_out = isinstance(error, UpstreamTimeout)
            self._call.status = 504 if timed_out else 502
            what = "the engine fell silent" if timed_out else "the engine broke"
            code = "upstream_timeout" if timed_out else "upstream_error"
            self._gate.put(Frame(error_event(f"{what} before its answer was complete", code=code)), {})
        self._end()

    # --------------------------------------------------------------------------------------------------

    def _take(self, whole: bytes) -> None:
        for event in events(whole):
            if self._guarded.stopped is not None:
                return
            data = payload(event)
            body = None if data is None or data.startswith(b"[DONE]") else _body(data)
            if data is not None and body is None and not data.startswith(b"[DONE]"):
                self._broken()
                return
            self._hold(event, body)

    def _hold(self, event: bytes, body: dict[str, Any] | None) -> None:
        if body is None:
            self._gate.put(Frame(event), {})
            return
        self._begun(body)
        places: dict[AnswerChannel, tuple[int, int]] = {}
        for piece in pieces(body):
            scan = self._guarded.scan(piece.channel)
            start = scan.length
            self._guarded.feed(piece)
            places[piece.channel] = places.get(piece.channel, (start, 0))[0], start + len(piece.text)
        starts = {channel: start for channel, (start, _) in places.items()}
        self._gate.put(Frame(event, body, starts), places)  # type: ignore[arg-type]  # a channel is hashable

    def _broken(self) -> None:
        """End a stream that cannot be read: what nobody can read, nobody can check."""
        self._response.close()
        self._call.status = 502
        self._gate.put(Frame(error_event("the engine sent what is no chunk", code="upstream_error")), {})
        self._end()

    def _end(self) -> None:
        if self._ended or self.came.done():
            return
        self._ended = True
        self._guarded.end()
        self.came.set_result(None)
        self.flush()

    def _rendered(self, held: Held[Frame]) -> bytes:
        frame = held.frame
        if frame.body is None:
            last = (payload(frame.event) or b"").startswith(b"[DONE]")
            return self._moderation() + frame.event if last else frame.event
        self._said(frame.body, text=bool(frame.starts))
        if not any(self._guarded.scan(channel).edits for channel in frame.starts):
            return frame.event
        at = dict(frame.starts)

        def text(piece: AnswerPiece) -> str:
            start = at[piece.channel]
            at[piece.channel] = start + len(piece.text)
            return self._guarded.rewritten(piece, start)

        body = with_texts(frame.body, text)
        return frame.event if body == frame.body else b"data: " + _ENCODE(body) + b"\n\n"

    def _begun(self, body: dict[str, Any]) -> None:
        """Keep what is needed to end the stream in the middle."""
        self._frame = self._frame or {name: body[name] for name in _COMMON if name in body}
        self._seen.update(number for number, _ in _ends(body))

    def _said(self, body: dict[str, Any], *, text: bool) -> None:
        if text and not self._spoken:
            self._spoken = True
            self._call.first_token()
        self._closed.update(number for number, ended in _ends(body) if ended)

    def _write_early(self) -> None:
        early, self._early = self._early, []
        self._write(early)

    def _write(self, parts: Sequence[bytes]) -> None:
        data = b"".join(parts)
        if data:
            self._begin()
            self._call.exchange.write(data)

    def _begin(self) -> None:
        exchange = self._call.exchange
        if not exchange.started:
            self._call.status = self._call.status or self._response.status
            exchange.start(200, [*self._headers, self._guarded.header()])

    def _stop(self) -> None:
        """End the answer as clients understand it."""
        error = self._guarded.refusal()
        if self._guarded.decision.outcome is Outcome.BLOCKED:
            self._write_early()
            self._write(self._closing(error.message))
        elif not self._call.exchange.started:
            self._call.fail(error)
        else:
            self._call.status = error.status
            self._write([error.event()])
        self._finish()

    def _closing(self, words: str) -> list[bytes]:
        # What was not said yet says why; whoever read half an answer must not read our words as its end.
        choices = self._seen - self._closed
        chunks = closing_chunks(self._frame, choices, None if self._spoken else words)
        meter = self._call.meter
        if self._usage and meter.known:
            total = meter.prompt + meter.completion
            usage = {
                "prompt_tokens": meter.prompt,
                "completion_tokens": meter.completion,
                "total_tokens": total,
            }
            chunks.append({**self._frame, "choices": [], "usage": usage})
        return [*(b"data: " + _ENCODE(chunk) + b"\n\n" for chunk in chunks), self._moderation(), DONE]

    def _moderation(self) -> bytes:
        """Give the chunk with the verdicts that the client asked for: the last one, when all are in."""
        moderated = self._guarded.moderated
        if moderated is None:
            return b""
        return b"data: " + _ENCODE({**self._frame, "choices": [], "moderation": moderated.member()}) + b"\n\n"

    def _finish(self) -> None:
        self._begin()
        self._call.exchange.end()
        self._over.set_result(None)


def _ends(body: dict[str, Any]) -> list[tuple[int, bool]]:
    """Give the choices of a chunk, and whether each ends with it."""
    choices = [choice for choice in body.get("choices") or () if isinstance(choice, dict)]
    numbers = [(choice.get("index", 0), choice.get("finish_reason") is not None) for choice in choices]
    return [(number, ended) for number, ended in numbers if isinstance(number, int)]


def _body(data: bytes) -> dict[str, Any] | None:
    try:
        return _DECODE(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
