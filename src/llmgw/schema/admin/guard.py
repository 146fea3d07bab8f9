"""Guardrails as operators set and see them."""

from llmgw.schema.demand import AuditEntry
from llmgw.schema.guard.judge import JudgeStatus
from llmgw.schema.guard.policy import StoredPolicy
from llmgw.schema.value import Value


class StoredPolicies(Value, frozen=True, kw_only=True):
    """`GET /api/v1/guard/policies/stored`: policies with their revisions."""

    policies: tuple[StoredPolicy, ...]


class PolicyDiff(Value, frozen=True, kw_only=True):
    """`POST /api/v1/guard/policies/diff`, and what `PUT /api/v1/guard/policies` did."""

    put: tuple[str, ...]
    """Names of policies that are new or changed."""
    deleted: tuple[str, ...]
    text: str
    """A line for each policy that changes, and under it each field that does."""
    warnings: tuple[str, ...] = ()
    """What the file relies on and is not there: judges, keys."""


class JudgeList(Value, frozen=True, kw_only=True):
    """`GET /api/v1/guard/judges`."""

    judges: tuple[JudgeStatus, ...]


class EnableJudge(Value, frozen=True, kw_only=True):
    """`POST /api/v1/guard/judges/NAME/enable`."""

    source: str | None = None
    """Weights of a judge; left out: those that nodes have and llmgw recognises."""
    replace: bool = False
    """Take the place of a model of that name that is no judge, or whose verdicts are wrong."""


class JudgeEnabled(Value, frozen=True, kw_only=True):
    """What was done, in words, in order; and how the judge does now."""

    model: str
    source: str
    did: tuple[str, ...]
    judge: JudgeStatus | None = None
    """`null`: no policy asks it."""


class AuditList(Value, frozen=True, kw_only=True):
    """`GET /api/v1/guard/audit`: coverage records of requests, newest first."""

    entries: tuple[AuditEntry, ...]
    kept: int
    """Records that are kept, of any outcome."""
