"""What a judge's reading means to a rule: its threshold, its exclusions, and what the middle level counts as."""

from llmgw.core.guard.judges.adapter import Label, Reading, Unclear
from llmgw.schema.guard.rule import Controversial, FailureKind, Rule
from llmgw.schema.guard.verdict import Verdict, VerdictState, failed, safe

EVEN = 0.5
"""The threshold at which words alone decide as well."""


def verdict_of(rule: Rule, reading: Reading | Unclear) -> Verdict:
    """Give the verdict of a rule. Unsafe in excluded categories only is safe; without categories it is unsafe."""
    if isinstance(reading, Unclear):
        return failed(FailureKind.UNCLEAR, reading.detail)
    score = _score(rule, reading)
    if score is None and rule.threshold != EVEN:
        return failed(
            FailureKind.MISCONFIGURED, "its engine gives no probabilities, so no threshold but 0.5 can be held"
        )
    if not _found(rule, reading, score):
        return safe(score=score)
    kept = tuple(category for category in reading.categories if category not in rule.exclude)
    known = len(reading.categories) == len(reading.codes)
    if reading.codes and known and not kept:
        return safe(score=score)
    return Verdict(state=VerdictState.UNSAFE, score=score, categories=kept, codes=reading.codes)


def _score(rule: Rule, reading: Reading) -> float | None:
    if reading.chances is None:
        return None
    score = reading.chances.get(Label.UNSAFE, 0.0)
    if rule.controversial is Controversial.UNSAFE:
        score += reading.chances.get(Label.CONTROVERSIAL, 0.0)
    return min(score, 1.0)


def _found(rule: Rule, reading: Reading, score: float | None) -> bool:
    if score is not None and score >= rule.threshold:
        return True
    said = reading.label is Label.UNSAFE or (
        reading.label is Label.CONTROVERSIAL and rule.controversial is Controversial.UNSAFE
    )
    # Above an even threshold a judge's word is not enough, its probability must reach it.
    return said and (score is None or rule.threshold <= EVEN)
