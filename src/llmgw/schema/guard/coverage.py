"""The coverage record of a request: what was scanned by which rule and judge, what was not, and why."""

from enum import StrEnum

from llmgw.schema.guard.category import Category
from llmgw.schema.guard.rule import Action, FailureKind, Stage
from llmgw.schema.guard.verdict import VerdictState
from llmgw.schema.value import Value


class Outcome(StrEnum):
    """What guardrails did with a request."""

    ALLOWED = "allowed"
    FLAGGED = "flagged"
    REDACTED = "redacted"
    BLOCKED = "blocked"
    UNAVAILABLE = "unavailable"
    """Refused because a rule that must answer did not."""


class Why(StrEnum):
    """Why something was not scanned."""

    IMAGE = "image"
    AUDIO = "audio"
    FILE = "file"
    TOKEN_NUMBERS = "token_numbers"  # noqa: S105 - numbers of a tokenizer
    UNKNOWN_PART = "unknown_part"
    TOO_LONG = "too_long"
    CUT_OFF = "cut_off"
    """The answer ended before the rule had looked: the client left, or another rule blocked."""


class RuleScan(Value, frozen=True, kw_only=True):
    """One rule at one stage of one request, all its texts together."""

    policy: str
    revision: int
    rule: str
    stage: Stage
    action: Action
    state: VerdictState
    """The worst of its verdicts: unsafe, else error, else safe."""
    texts: int
    characters: int
    """Scanned with a verdict of safe or unsafe. 0 with SAFE means: there was nothing to scan."""
    judge: str | None = None
    judge_version: str | None = None
    score: float | None = None
    """The highest."""
    categories: tuple[Category, ...] = ()
    codes: tuple[str, ...] = ()
    failure: FailureKind | None = None
    failures: int = 0
    bypassed: int = 0
    """Texts that passed without a verdict because the rule fails open."""
    milliseconds: float = 0.0
    """Longest wait for one of its verdicts."""


class Unscanned(Value, frozen=True, kw_only=True):
    """A part that no rule read."""

    stage: Stage
    where: str
    """Place in the request, such as `messages[2].content[1]`."""
    why: Why
    policy: str | None = None
    rule: str | None = None


class Coverage(Value, frozen=True, kw_only=True):
    """The record of one request."""

    outcome: Outcome
    version: int | None = None
    """Version of the policies; `None`: this gateway has none yet."""
    scans: tuple[RuleScan, ...] = ()
    unscanned: tuple[Unscanned, ...] = ()
    by: tuple[str, ...] = ()
    """`policy/rule` of those that decided the outcome."""
