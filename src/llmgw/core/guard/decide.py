"""From verdicts to what happens to the request. An error is handled by the rule's failure policy, never as safe."""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from llmgw.core.guard.rulebook import BoundRule
from llmgw.schema.guard.coverage import Outcome
from llmgw.schema.guard.rule import Action, OnFailure, Rule, choice
from llmgw.schema.guard.verdict import Verdict, VerdictState


class Effect(Enum):
    """What one verdict does, the strongest first."""

    BLOCK = "block"
    REFUSE = "refuse"
    """Closed: the rule must answer and did not."""
    REDACT = "redact"
    FLAG = "flag"
    SHADOW = "shadow"
    BYPASS = "bypass"
    """Open: the rule did not answer, and the request passes, counted."""
    PASS = "pass"  # noqa: S105 - no password


class Finding(NamedTuple):
    """A rule's verdict on one text."""

    bound: BoundRule
    verdict: Verdict


class Decision(NamedTuple):
    """What happens, and which findings decided it, those of larger priority first."""

    outcome: Outcome
    by: tuple[Finding, ...] = ()

    @property
    def stops(self) -> bool:
        """True when the request is refused or its answer ends here."""
        return self.outcome in {Outcome.BLOCKED, Outcome.UNAVAILABLE}


_ACTIONS = {
    Action.BLOCK: Effect.BLOCK,
    Action.REDACT: Effect.REDACT,
    Action.FLAG: Effect.FLAG,
    Action.SHADOW: Effect.SHADOW,
}
_OUTCOMES = (
    (Effect.BLOCK, Outcome.BLOCKED),
    (Effect.REFUSE, Outcome.UNAVAILABLE),
    (Effect.REDACT, Outcome.REDACTED),
    (Effect.FLAG, Outcome.FLAGGED),
)


def effect(rule: Rule, verdict: Verdict) -> Effect:
    """Say what one verdict does."""
    match verdict.state:
        case VerdictState.SAFE:
            return Effect.PASS
        case VerdictState.UNSAFE:
            return _ACTIONS[rule.action]
        case VerdictState.ERROR:
            return _failed(rule, verdict)


def decide(findings: Iterable[Finding]) -> Decision:
    """Say what all verdicts together do: the strongest effect wins; a block by a verdict is told before a refusal."""
    by_effect: dict[Effect, list[Finding]] = {}
    for finding in findings:
        by_effect.setdefault(effect(finding.bound.rule, finding.verdict), []).append(finding)
    for strongest, outcome in _OUTCOMES:
        if strongest in by_effect:
            ordered = sorted(by_effect[strongest], key=lambda one: -one.bound.priority)
            return Decision(outcome, tuple(ordered))
    return Decision(Outcome.ALLOWED)


def joined(decision: Decision, finding: Finding) -> Decision:
    """Give the decision after one more finding. Safe ones and what a rule found before change nothing."""
    if finding.verdict.state is VerdictState.SAFE:
        return decision
    if any(one.bound is finding.bound and one.verdict.state is finding.verdict.state for one in decision.by):
        return decision
    after = decide([*decision.by, finding])
    return decision if after.outcome is Outcome.ALLOWED else after


def _failed(rule: Rule, verdict: Verdict) -> Effect:
    if verdict.failure is None or choice(rule, verdict.failure) is OnFailure.CLOSED:
        return Effect.REFUSE
    return Effect.BYPASS
