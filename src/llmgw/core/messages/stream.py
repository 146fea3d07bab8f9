"""A streamed answer: chunks of a chat as Anthropic's events.

The first event tells the tokens of the prompt, so it waits for a chunk that knows them, but never past the first word.
"""

from typing import Any

import msgspec

from llmgw.core.messages.answer import message_frame, opened
from llmgw.core.messages.ending import Stop, Tokens, stop_of, tokens_of, usage_body
from llmgw.core.messages.parts import Kind, Part, parts_of
from llmgw.core.untranslatable import Untranslatable
from llmgw.schema.openai.chat_answer import ChatChunk, DeltaChoice

_ENCODE = msgspec.json.Encoder().encode
_DELTAS = {
    Kind.TEXT: ("text_delta", "text"),
    Kind.THINKING: ("thinking_delta", "thinking"),
    Kind.TOOL_USE: ("input_json_delta", "partial_json"),
}
_Open = tuple[Kind, int]
"""Which block is open: of texts there is one, of tool calls one for each index."""


def event(name: str, body: dict[str, Any]) -> bytes:
    """Write one event."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _ENCODE({"type": name, **body}))


class MessageStream:
    """One stream: `chunk` for each, then `end`. Each gives the events that follow."""

    def __init__(self) -> None:
        self._id: str | None = None
        self._model: str | None = None
        self._tokens: Tokens | None = None
        self._begun = False
        self._block = -1
        self._open: _Open | None = None
        self._calls: set[int] = set()
        """Indexes of all tool calls so far."""
        self._last: DeltaChoice | None = None
        """The choice that told why the answer ended."""

    def chunk(self, chunk: ChatChunk) -> bytes:
        """Give a chunk's events. Raises `Untranslatable` for calls of tools that nobody could take apart."""
        self._id = self._id or chunk.id
        self._model = self._model or chunk.model
        self._tokens = _known(tokens_of(chunk.usage, chunk.timings), self._tokens)
        choice = chunk.choices[0] if chunk.choices else None
        if choice is not None and choice.finish_reason:
            self._last = choice
        parts = parts_of(choice.delta) if choice is not None and choice.delta is not None else []
        out = [] if self._begun or not (parts or self._tokens) else [self._begin()]
        for part in parts:
            out += self._part(part)
        return b"".join(out)

    def end(self) -> bytes:
        """Give the last events."""
        out = [] if self._begun else [self._begin()]
        out += self._close()
        stop = stop_of(self._last, called=bool(self._calls)) if self._last is not None else Stop("end_turn", None)
        delta = {"stop_reason": stop.reason, "stop_sequence": stop.sequence}
        out.append(event("message_delta", {"delta": delta, "usage": usage_body(self._tokens or Tokens())}))
        out.append(event("message_stop", {}))
        return b"".join(out)

    def _begin(self) -> bytes:
        self._begun = True
        return event("message_start", {"message": message_frame(self._id, self._model, self._tokens)})

    def _part(self, part: Part) -> list[bytes]:
        key = part.kind, (part.call.index or 0) if part.call is not None else 0
        out = [] if key == self._open else [*self._close(), self._begin_block(part, key)]
        if part.text:
            kind, member = _DELTAS[part.kind]
            delta = {"type": kind, member: part.text}
            out.append(event("content_block_delta", {"index": self._block, "delta": delta}))
        return out

    def _begin_block(self, part: Part, key: _Open) -> bytes:
        if part.kind is Kind.TOOL_USE:
            if key[1] in self._calls:
                raise Untranslatable("a tool call in pieces, with others between them")
            self._calls.add(key[1])
        self._open = key
        self._block += 1
        frame = message_frame(self._id, None, None)
        block = opened(part, frame["id"], self._block)
        return event("content_block_start", {"index": self._block, "content_block": block})

    def _close(self) -> list[bytes]:
        if self._open is None:
            return []
        self._open = None
        return [event("content_block_stop", {"index": self._block})]


def _known(told: Tokens | None, before: Tokens | None) -> Tokens | None:
    """Keep what was known of the cache: a count that says nothing of it must not count the cached part twice."""
    if told is None or before is None:
        return told or before
    return told._replace(cached=before.cached) if told.cached is None else told
