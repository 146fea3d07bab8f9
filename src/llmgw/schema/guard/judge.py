"""Judges: which families there are, how their canaries went, and how they do, as people see it."""

from datetime import datetime
from enum import StrEnum

from llmgw.schema.value import Value


class JudgeFamily(StrEnum):
    """Judges that llmgw knows how to ask."""

    LLAMA_GUARD_3_1B = "llama-guard-3-1b"
    LLAMA_GUARD_3_8B = "llama-guard-3-8b"
    QWEN3_GUARD_GEN = "qwen3guard-gen"
    PROMPTED = "prompted"
    """An ordinary chat model that is told what is not allowed."""


class CanaryState(StrEnum):
    """What a judge's answers to the canaries say about it."""

    RIGHT = "right"
    ALWAYS_SAFE = "always_safe"
    ALWAYS_UNSAFE = "always_unsafe"
    INVERTED = "inverted"
    MUTE = "mute"
    NONSENSE = "nonsense"
    REFUSING = "refusing"
    SILENT = "silent"
    """No canary was answered in time: dead, frozen or overloaded. Says nothing about its judgement."""
    UNSURE = "unsure"
    """Some are wrong, without a pattern."""


class CanaryReport(Value, frozen=True, kw_only=True):
    """One round of canaries."""

    state: CanaryState
    right: int
    total: int
    text: str
    """In words: what the judge does."""
    at: datetime | None = None


class JudgeFailure(Value, frozen=True, kw_only=True):
    """The last time a judge had no verdict."""

    at: datetime
    text: str


class JudgeState(StrEnum):
    """What is the matter with a judge; the first that applies."""

    ABSENT = "absent"
    NOT_A_JUDGE = "not_a_judge"
    NO_REPLICA = "no_replica"
    WRONG = "wrong"
    """Its canaries fail: it is quarantined."""
    DEAD = "dead"
    OVERLOADED = "overloaded"
    SLOW = "slow"
    UNPROVEN = "unproven"
    """No round of canaries is over yet."""
    HEALTHY = "healthy"


class JudgeStatus(Value, frozen=True, kw_only=True):
    """One judge that policies ask, as `GET /api/v1/guard/judges` shows it."""

    model: str
    policies: tuple[str, ...]
    in_catalog: bool
    is_judge: bool
    replicas_ready: int
    state: JudgeState
    family: JudgeFamily | None = None
    forced: bool = False
    """The family is a policy's word, not what its files say."""
    last_failure: JudgeFailure | None = None
    canaries: CanaryReport | None = None
    text: str
    """One sentence, true when it was made."""
    problem: str | None = None
    """The same sentence when something is wrong."""
    remedy: str | None = None
    """What cures it: a command, or what to look at."""
