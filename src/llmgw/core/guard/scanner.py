"""Scanners: what rules without a judge find in a text."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

from llmgw.core.guard.linear import BadPattern, Pattern
from llmgw.core.guard.personal_data import PersonalDataScanner
from llmgw.core.guard.redact import merged, shifted
from llmgw.core.guard.secrets import SecretScanner
from llmgw.schema.guard.rule import Action, FailureKind, PersonalDataKind, Rule, SecretKind
from llmgw.schema.guard.verdict import Span, Verdict, VerdictState, failed, safe

_PATTERN = "pattern"


class Scanner(Protocol):
    """Finds places in a text."""

    look_back: int
    """Characters before a window that decide what stands in it."""

    def spans(self, text: str) -> Iterator[Span]:
        """Give the places, in any order; they may overlap."""


class PatternScanner:
    """Finds what an operator's patterns describe."""

    look_back = 0

    def __init__(self, expressions: Iterable[str]) -> None:
        """Compile. Raises `BadPattern`."""
        self._patterns = tuple(Pattern(expression) for expression in expressions)

    def spans(self, text: str) -> Iterator[Span]:
        """Give the places, pattern by pattern."""
        for pattern in self._patterns:
            for place in pattern.places(text):
                yield Span(start=place.start, end=place.end, kind=_PATTERN)


class BrokenScanner:
    """Stands for a rule that cannot be carried out. Policies are checked before they are kept: it should never be."""

    look_back = 0

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def spans(self, text: str) -> Iterator[Span]:
        """Find nothing; `verdict` tells of it."""
        del text
        return iter(())


def scanner(rule: Rule) -> Scanner | None:
    """Make the scanner of a rule; `None` for rules that do not look at texts alone."""
    if rule.pattern is not None:
        try:
            return PatternScanner([rule.pattern] if isinstance(rule.pattern, str) else rule.pattern)
        except BadPattern as error:
            return BrokenScanner(str(error))
    if rule.secrets is not None:
        return SecretScanner(tuple(SecretKind) if rule.secrets == "all" else rule.secrets)
    if rule.personal_data is not None:
        kinds = tuple(PersonalDataKind) if rule.personal_data == "all" else rule.personal_data
        return PersonalDataScanner(kinds, rule.regions)
    return None


def verdict(rule: Rule, scanner: Scanner, text: str) -> Verdict:
    """Say what a rule finds in a text: all places where it redacts, else the first is enough."""
    if isinstance(scanner, BrokenScanner):
        return failed(FailureKind.MISCONFIGURED, f"its pattern {scanner.reason}")
    found = scanner.spans(text)
    spans = tuple(merged(found if rule.action is Action.REDACT else islice(found, 1)))
    if not spans:
        return safe()
    codes = tuple(sorted({span.kind for span in spans}))
    return Verdict(state=VerdictState.UNSAFE, codes=codes, spans=spans)


def window_verdict(rule: Rule, scanner: Scanner, before: str, text: str) -> Verdict:
    """Say what a rule finds in a window of a longer text, of which `before` came just before it.

    Places are counted from the window's beginning; they may begin before it, and never end before it.
    """
    back = before[len(before) - scanner.look_back :] if scanner.look_back < len(before) else before
    if not scanner.look_back or not back:
        return verdict(rule, scanner, text)
    spans = tuple(span for span in merged(scanner.spans(back + text)) if span.end > len(back))
    if not spans:
        return safe()
    codes = tuple(sorted({span.kind for span in spans}))
    return Verdict(state=VerdictState.UNSAFE, codes=codes, spans=shifted(spans, -len(back)))
