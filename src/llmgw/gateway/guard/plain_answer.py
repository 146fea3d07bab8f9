"""A plain answer under guard: looked at in the same windows as a stream, handed on when the rules let it."""

from typing import Any

import msgspec

from llmgw.core.guard.openai_answer import AnswerPiece, pieces, with_texts
from llmgw.core.guard.openai_block import blocked_answer
from llmgw.gateway.errors import ApiError
from llmgw.gateway.guard.guarded import Guarded
from llmgw.schema.guard.coverage import Outcome, Unscanned, Why
from llmgw.schema.guard.rule import Stage

_DECODE = msgspec.json.Decoder(dict[str, Any]).decode
_ENCODE = msgspec.json.Encoder().encode


class PlainAnswer:
    """One answer, whole. Its texts are given to the rules at once; `give` hands it on."""

    def __init__(self, guarded: Guarded, status: int, content_type: bytes, body: bytes) -> None:
        self._guarded = guarded
        self._status = status
        self._type = content_type
        self._body = body
        self._decoded: dict[str, Any] = {}
        if guarded.rules.output:
            self._look()

    async def give(self) -> None:
        """Answer the client, once the rules that must answer did. Raises `ApiError`."""
        guarded = self._guarded
        await guarded.until(lambda: guarded.settled)
        if guarded.stopped is not None and guarded.decision.outcome is not Outcome.BLOCKED:
            raise guarded.refusal()
        guarded.call.respond(self._status, [(b"content-type", self._type), guarded.header()], self._rendered())

    def _look(self) -> None:
        try:
            self._decoded = _DECODE(self._body)
            found = pieces(self._decoded)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._guarded.missed(Unscanned(stage=Stage.OUTPUT, where="the answer", why=Why.UNKNOWN_PART))
            if self._guarded.rules.holds_output:
                raise ApiError(
                    502,
                    "the engine's answer is no JSON, so that no guardrail can read it",
                    code="upstream_error",
                    kind="server_error",
                ) from error
            return
        for piece in found:
            self._guarded.feed(piece)
        self._guarded.end()

    def _rendered(self) -> bytes:
        guarded = self._guarded
        if guarded.moderated is not None and self._decoded:
            return _ENCODE({**self._checked(), "moderation": guarded.moderated.member()})
        if guarded.stopped is None and not guarded.changes:
            return self._body
        return _ENCODE(self._checked())

    def _checked(self) -> dict[str, Any]:
        guarded = self._guarded
        if guarded.stopped is not None:
            return blocked_answer(self._decoded, guarded.refusal().message)
        at: dict[Any, int] = {}

        def text(piece: AnswerPiece) -> str:
            start = at.get(piece.channel, 0)
            at[piece.channel] = start + len(piece.text)
            return guarded.rewritten(piece, start)

        return with_texts(self._decoded, text)
