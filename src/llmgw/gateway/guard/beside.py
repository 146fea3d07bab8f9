"""A stream that is looked at while it passes: no rule on it holds anything back."""

from collections.abc import Callable
from typing import Any

import msgspec

from llmgw.core.guard.openai_answer import pieces
from llmgw.gateway.guard.guarded import Guarded
from llmgw.gateway.sse import events, payload
from llmgw.schema.guard.coverage import Unscanned, Why
from llmgw.schema.guard.rule import Stage

_DECODE = msgspec.json.Decoder(dict[str, Any]).decode
_DONE = b"[DONE]"


class Beside:
    """A function for `relay.forward.pipe`: gives what `inner` gives, and shows its texts to the rules."""

    def __init__(self, guarded: Guarded, inner: Callable[[bytes], bytes]) -> None:
        self._guarded = guarded
        self._inner = inner

    def __call__(self, data: bytes) -> bytes:
        """Give what to send for a piece of the stream."""
        whole = self._inner(data)
        for event in events(whole):
            told = payload(event)
            if told is not None and not told.startswith(_DONE):
                self._look(told)
        return whole

    def _look(self, data: bytes) -> None:
        try:
            found = pieces(_DECODE(data))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._guarded.missed(Unscanned(stage=Stage.OUTPUT, where="a chunk", why=Why.UNKNOWN_PART))
            return
        for piece in found:
            self._guarded.feed(piece)
