"""Judges that policies ask: how each does, and the audit of what guardrails did."""

from llmgw.core.guard.judge_evidence import asked_judges, judge_evidence
from llmgw.core.guard.judge_status import judge_status
from llmgw.core.snapshot import Snapshot
from llmgw.schema.admin.guard import AuditList
from llmgw.schema.errors import InvalidInput
from llmgw.schema.guard.coverage import Outcome
from llmgw.schema.guard.judge import JudgeState, JudgeStatus
from llmgw.server.fleet import Fleet
from llmgw.server.view import unavailable

MAX_AUDIT = 1000
"""Records given at once."""
_KNOWN_HERE = frozenset({JudgeState.ABSENT, JudgeState.NOT_A_JUDGE, JudgeState.NO_REPLICA})
"""States that a control plane knows which hears no gateway."""


def judge_statuses(fleet: Fleet, snapshot: Snapshot | None = None) -> tuple[JudgeStatus, ...]:
    """Tell of each judge that policies ask, by name; `snapshot` is that of now, where there is one already."""
    policies = fleet.policies
    asked = frozenset(one.model for one in asked_judges(policies))
    if not asked:
        return ()
    snapshot = snapshot or fleet.snapshot()
    evidence = judge_evidence(policies, snapshot, fleet.judge_reports(), _troubles(asked, snapshot))
    return tuple(judge_status(one) for one in evidence)


def judge_problems(fleet: Fleet, snapshot: Snapshot | None = None) -> tuple[JudgeStatus, ...]:
    """Give the judges with a problem. One that stands by tells only what it knows: gateways report to the leader."""
    heard = fleet.judge_reports()
    return tuple(
        one
        for one in judge_statuses(fleet, snapshot)
        if one.problem is not None and (fleet.is_leader() or one.model in heard or one.state in _KNOWN_HERE)
    )


def audit(fleet: Fleet, *, outcome: Outcome | None, limit: int) -> AuditList:
    """Give the newest coverage records. Raises `InvalidInput`."""
    if not 1 <= limit <= MAX_AUDIT:
        raise InvalidInput(f"limit must be between 1 and {MAX_AUDIT}", field="limit", allowed=(f"1..{MAX_AUDIT}",))
    entries = fleet.audit.newest()
    found = (entry for entry in entries if outcome is None or entry.coverage.outcome is outcome)
    return AuditList(entries=tuple(entry for entry, _ in zip(found, range(limit), strict=False)), kept=len(entries))


def _troubles(asked: frozenset[str], snapshot: Snapshot) -> dict[str, str]:
    """Say why judges have no replica that is ready."""
    replicas = {name: [one for one in snapshot.replicas if one.model == name] for name in asked}
    shards = {shard.id for found in replicas.values() for one in found for shard in one.shards}
    reports = {report.id: report for seen in snapshot.nodes for report in seen.reports or () if report.id in shards}
    return {
        seen.model.name: unavailable(seen.model, seen.status, tuple(replicas[seen.model.name]), reports)
        for seen in snapshot.models
        if seen.model.name in asked
    }
