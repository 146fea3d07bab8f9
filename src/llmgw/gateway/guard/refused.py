"""Refusals of guardrails as clients get them: OpenAI's shape, with the rules beside."""

from typing import Any

import msgspec

from llmgw.core.guard.decide import Decision
from llmgw.core.guard.ledger import Ledger, header
from llmgw.core.guard.refusal import Refusal, refusal
from llmgw.gateway.errors import ApiError

HEADER = b"x-llmgw-guard"

_ENCODE = msgspec.json.Encoder().encode


class Refused(ApiError):
    """An error of a guardrail."""

    def __init__(self, told: Refusal, ledger: Ledger) -> None:
        super().__init__(
            told.status,
            told.message,
            code=told.code,
            kind=told.kind,
            param=told.param,
            retry_after_s=told.retry_after_s,
            headers=((b"x-should-retry", b"true" if told.again else b"false"), coverage_header(ledger)),
        )
        self._told = told

    def body(self) -> bytes:
        """Give the JSON body."""
        return _ENCODE(self._shape())

    def event(self) -> bytes:
        """Give the same as the last event of a stream that was begun."""
        return b"data: " + self.body() + b"\n\n"

    def _shape(self) -> dict[str, Any]:
        told = self._told
        return {
            "error": {
                "message": told.message,
                "type": told.kind,
                "param": told.param,
                "code": told.code,
                "guardrails": told.rules,
                "categories": told.categories,
            }
        }


def refused(decision: Decision, ledger: Ledger, rejected: Any = ()) -> Refused:
    """Make the error of a decision that stops."""
    return Refused(refusal(decision, rejected), ledger)


def coverage_header(ledger: Ledger, *, over: bool = True) -> tuple[bytes, bytes]:
    """Give what is covered, as a header. `over`: no rule looks at anything any more."""
    pending = 0 if over else ledger.pending
    return HEADER, header(ledger.coverage(over=over), pending=pending).encode()
