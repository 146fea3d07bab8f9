"""Verdicts: safe, unsafe or error. Whatever is unclear is an error, never safe."""

from enum import StrEnum

from llmgw.schema.guard.category import Category
from llmgw.schema.guard.rule import FailureKind
from llmgw.schema.value import Value


class VerdictState(StrEnum):
    """The three states."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    ERROR = "error"


class Span(Value, frozen=True, kw_only=True):
    """A place that a rule found: characters `start` to `end` (exclusive), and what kind of thing stands there."""

    start: int
    end: int
    kind: str


class Verdict(Value, frozen=True, kw_only=True):
    """What one rule says of one text. Never holds the text."""

    state: VerdictState
    score: float | None = None
    """Probability of unsafe; `None` where the rule gives none."""
    categories: tuple[Category, ...] = ()
    codes: tuple[str, ...] = ()
    """The judge's own codes, or the kinds that a deterministic rule found."""
    spans: tuple[Span, ...] = ()
    failure: FailureKind | None = None
    """Only with ERROR."""
    detail: str | None = None
    """Why, in words."""


def safe(*, score: float | None = None) -> Verdict:
    """Make a verdict of safe."""
    return Verdict(state=VerdictState.SAFE, score=score)


def failed(failure: FailureKind, detail: str) -> Verdict:
    """Make a verdict of error."""
    return Verdict(state=VerdictState.ERROR, failure=failure, detail=detail)
