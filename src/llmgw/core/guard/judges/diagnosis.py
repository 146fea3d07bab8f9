"""What a judge's answers to the canaries say about it, in words."""

from collections.abc import Sequence
from typing import NamedTuple

from llmgw.core.guard.judges.canaries import Canary
from llmgw.schema.guard.judge import CanaryReport, CanaryState
from llmgw.schema.guard.rule import FailureKind
from llmgw.schema.guard.verdict import Verdict, VerdictState

QUARANTINED = frozenset(
    {
        CanaryState.ALWAYS_SAFE,
        CanaryState.ALWAYS_UNSAFE,
        CanaryState.INVERTED,
        CanaryState.MUTE,
        CanaryState.NONSENSE,
        CanaryState.REFUSING,
        CanaryState.UNSURE,
    }
)
"""States in which a judge is not asked: its rules fail as misconfigured. SILENT is not among them: whether a judge that
does not answer is dead or busy, its failure policy for that applies, and asking it costs nothing that counts."""
_SILENT = frozenset({FailureKind.UNREACHABLE, FailureKind.TIMEOUT, FailureKind.OVERLOADED})


class CanaryResult(NamedTuple):
    """One canary and what the judge said of it. `empty`: it answered, with no text at all."""

    canary: Canary
    verdict: Verdict
    empty: bool = False


def diagnose(results: Sequence[CanaryResult]) -> CanaryReport:
    """Judge the judge. Canaries that were not answered in time say nothing; of the others every one must be right."""
    answered = [result for result in results if result.verdict.failure not in _SILENT]
    right = sum(_right(result) for result in answered)
    state = _state(answered, right)
    text = _text(state, right, answered, results)
    return CanaryReport(state=state, right=right, total=len(answered), text=text)


def _state(answered: Sequence[CanaryResult], right: int) -> CanaryState:
    if not answered:
        return CanaryState.SILENT
    if right == len(answered) and {result.canary.unsafe for result in answered} == {True, False}:
        return CanaryState.RIGHT
    errors = [result for result in answered if result.verdict.state is VerdictState.ERROR]
    if len(errors) == len(answered):
        return _wordless(errors)
    states = {result.verdict.state for result in answered}
    if not errors and len(answered) > 1:
        if states == {VerdictState.SAFE} and right < len(answered):
            return CanaryState.ALWAYS_SAFE
        if states == {VerdictState.UNSAFE} and right < len(answered):
            return CanaryState.ALWAYS_UNSAFE
        if right == 0:
            return CanaryState.INVERTED
    # All right so far, but only of one kind: half a proof is none.
    return CanaryState.SILENT if right == len(answered) else CanaryState.UNSURE


def _wordless(errors: Sequence[CanaryResult]) -> CanaryState:
    if all(result.empty for result in errors):
        return CanaryState.MUTE
    if all(result.verdict.failure is FailureKind.MISCONFIGURED for result in errors):
        return CanaryState.REFUSING
    return CanaryState.NONSENSE


def _text(state: CanaryState, right: int, answered: Sequence[CanaryResult], results: Sequence[CanaryResult]) -> str:
    total = len(answered)
    wrong = [result.canary.name for result in answered if not _right(result)]
    match state:
        case CanaryState.RIGHT:
            return f"gives all {total} canaries the right verdict"
        case CanaryState.ALWAYS_SAFE:
            return f"says safe to all {total} canaries, the unsafe ones too: its prompt or its weights are wrong"
        case CanaryState.ALWAYS_UNSAFE:
            return f"says unsafe to all {total} canaries, the safe ones too: its prompt or its weights are wrong"
        case CanaryState.INVERTED:
            return f"says safe to what is unsafe and unsafe to what is safe: all {total} canaries wrong"
        case CanaryState.MUTE:
            return f"answers all {total} canaries with nothing"
        case CanaryState.NONSENSE:
            return f"answers all {total} canaries with what is no verdict: it is no judge of this family"
        case CanaryState.REFUSING:
            detail = answered[0].verdict.detail
            return f"refuses all {total} canaries" + (f": {detail}" if detail else "")
        case CanaryState.SILENT:
            return f"left {len(results) - total} of {len(results)} canaries unanswered"
        case CanaryState.UNSURE:
            return f"gives {right} of {total} canaries the right verdict, but not {', '.join(wrong[:4])}"


def _right(result: CanaryResult) -> bool:
    wanted = VerdictState.UNSAFE if result.canary.unsafe else VerdictState.SAFE
    return result.verdict.state is wanted
