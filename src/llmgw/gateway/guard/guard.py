"""A worker's guardrails: finds the rules of a request, carries them out, and keeps the record."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from llmgw.core.guard.decide import Decision, Finding
from llmgw.core.guard.input_redact import redact_body, still_found
from llmgw.core.guard.judges.reply import JudgeReply
from llmgw.core.guard.ledger import complete, header
from llmgw.core.guard.moderated import Moderated
from llmgw.core.guard.rulebook import RuleSet
from llmgw.core.guard.turns import Conversation
from llmgw.gateway.ask import Ask
from llmgw.gateway.call import Call
from llmgw.gateway.errors import ApiError, malformed
from llmgw.gateway.guard.audit import Audit
from llmgw.gateway.guard.guard_counters import GuardCounters
from llmgw.gateway.guard.guarded import Guarded
from llmgw.gateway.guard.judge_book import JudgeBook
from llmgw.gateway.guard.policies import LivePolicies
from llmgw.gateway.guard.refused import refused
from llmgw.gateway.judging import Judging
from llmgw.gateway.routes_view import LiveRoute
from llmgw.schema.demand import AuditEntry
from llmgw.schema.guard.coverage import Coverage, Outcome
from llmgw.schema.guard.verdict import Verdict, VerdictState

_DECODE = msgspec.json.Decoder(dict[str, Any]).decode
_ENCODE = msgspec.json.Encoder().encode


class Surface(Protocol):
    """What an API's module knows of its requests."""

    def read(self, raw: bytes) -> Ask:
        """Read a request."""

    def conversation(self, body: Mapping[str, Any]) -> Conversation:
        """Give all texts of a request's decoded body that reach the model."""


class Guard:
    """One worker's guardrails."""

    def __init__(
        self, policies: LivePolicies, judging: Judging, judges: JudgeBook, counters: GuardCounters, audit: Audit
    ) -> None:
        self._policies = policies
        self._judging = judging
        self._judges = judges
        self._counters = counters
        self._audit = audit

    def rules(self, call: Call, model: str, others: tuple[str, ...] = ()) -> RuleSet | None:
        """Give the rules that apply to a request, whichever of the models answers; `None`: it passes as it is."""
        return self._policies.rules(call.project, call.key, model, others)

    async def run(
        self,
        call: Call,
        ask: Ask,
        route: LiveRoute,
        *,
        surface: Surface,
        rules: RuleSet,
        others: tuple[str, ...] = (),
        moderated: Moderated | None = None,
        answer: Callable[[Call, Ask, LiveRoute], Awaitable[None]],
    ) -> None:
        """Let `answer` answer the request under `rules`. Raises `ApiError` as it does, and for what is refused."""
        body = _decoded(call.exchange.request.body)
        guarded = Guarded(
            call,
            rules,
            surface.conversation(body),
            self._judging,
            models=(route.model, *others),
            version=self._policies.version,
            heard=lambda judge, reply: self.heard(call, judge, reply),
            moderated=moderated,
        )
        try:
            if guarded.input.decision.stops:
                raise refused(guarded.input.decision, guarded.ledger, guarded.input.rejected)
            asked = _safe(guarded, surface, body) if rules.holds_input else ask
            under = replace(asked, guard=guarded)
            await guarded.run(lambda: answer(call, under, route))
        finally:
            self._record(call, guarded.coverage)

    def heard(self, call: Call, judge: str, reply: JudgeReply) -> None:
        """Count a judge's reply to a question that a request caused."""
        self._judges.heard(judge, reply)
        self._counters.judged(call.key, judge, reply)

    def _record(self, call: Call, coverage: Coverage) -> None:
        call.coverage = header(coverage)
        self._counters.covered(coverage)
        if coverage.outcome is Outcome.ALLOWED and complete(coverage):
            return
        self._audit.add(
            [
                AuditEntry(
                    at=datetime.now(UTC),
                    request_id=call.request_id.decode(),
                    key=call.key,
                    project=call.project,
                    model=call.model or "",
                    surface=call.label,
                    coverage=coverage,
                )
            ]
        )


def _decoded(raw: bytes) -> dict[str, Any]:
    try:
        return _DECODE(raw)
    except msgspec.DecodeError as error:
        raise malformed(raw, error) from error
    except RecursionError as error:
        raise ApiError(400, "the request body is nested too deeply", code="invalid_json") from error


def _safe(guarded: Guarded, surface: Surface, body: dict[str, Any]) -> Ask:
    """Give what goes to the model: written anew from what the rules read, so that nothing else gets through."""
    redacting = guarded.input.redacting
    if redacting:
        body = redact_body(body, redacting)
        if still_found(body, redacting, surface.conversation):
            found = Verdict(state=VerdictState.UNSAFE, detail="it stands where it cannot be replaced")
            decision = Decision(Outcome.BLOCKED, tuple(Finding(rule, found) for rule in redacting))
            guarded.ledger.decided(decision)
            raise refused(decision, guarded.ledger)
    return surface.read(_ENCODE(body))
