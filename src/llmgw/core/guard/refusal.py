"""What a client is told whose request is refused or whose answer is cut: never what was found, only by which rule."""

from collections.abc import Sequence
from typing import NamedTuple

from llmgw.core.guard.decide import Decision
from llmgw.schema.guard.coverage import Outcome, Unscanned
from llmgw.schema.guard.rule import FailureKind

BLOCKED = "content_policy_violation"
UNREADABLE = "unscannable_content"
UNAVAILABLE = "guard_unavailable"
RETRY_AFTER_S = 5
"""A judge with much to do is asked again soon, but not at once; clients give up on values above 120."""


class Refusal(NamedTuple):
    """An error as surfaces put it into their own shapes."""

    status: int
    kind: str
    """`type` of an OpenAI error."""
    code: str
    message: str
    param: str | None = None
    again: bool = False
    """Whether the same request may succeed later: clients that retry by themselves are told not to, otherwise."""
    retry_after_s: int | None = None
    rules: tuple[str, ...] = ()
    """`policy/rule`, those of larger priority first."""
    categories: tuple[str, ...] = ()


def refusal(decision: Decision, rejected: Sequence[Unscanned] = ()) -> Refusal:
    """Say why a request is refused. `decision` is one that stops."""
    rules = tuple(dict.fromkeys(finding.bound.name for finding in decision.by))
    if rejected and not rules:
        return _unreadable(rejected)
    named = f"guardrail {rules[0]}" if len(rules) == 1 else f"guardrails {', '.join(rules)}"
    if decision.outcome is Outcome.UNAVAILABLE:
        return _unavailable(decision, rules, named)
    found = (finding.verdict for finding in decision.by)
    categories = tuple(dict.fromkeys(category.value for verdict in found for category in verdict.categories))
    told = f" ({', '.join(categories)})" if categories else ""
    return Refusal(
        status=400,
        kind="invalid_request_error",
        code=BLOCKED,
        message=f"the content is not allowed here: blocked by {named}{told}",
        rules=rules,
        categories=categories,
    )


def _unreadable(rejected: Sequence[Unscanned]) -> Refusal:
    first = rejected[0]
    more = f" and {len(rejected) - 1} more" if len(rejected) > 1 else ""
    return Refusal(
        status=400,
        kind="invalid_request_error",
        code=UNREADABLE,
        message=f"{first.where}{more} cannot be checked ({first.why}), and a guardrail wants it checked",
        param=first.where,
    )


def _unavailable(decision: Decision, rules: tuple[str, ...], named: str) -> Refusal:
    failures = {finding.verdict.failure for finding in decision.by}
    busy = failures <= {FailureKind.OVERLOADED, FailureKind.TIMEOUT}
    # A judge that is broken stays so for a while: a client that tries again by itself only adds to its load.
    words = "its judge has too much to do; try again" if busy else "its judge does not judge now"
    return Refusal(
        status=503,
        kind="server_error",
        code=UNAVAILABLE,
        message=f"the content could not be checked by {named}: {words}",
        again=busy,
        retry_after_s=RETRY_AFTER_S if busy else None,
        rules=rules,
    )
