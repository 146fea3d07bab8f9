"""Life of a replica: one step from what is stored and what agents report.

    STARTING ── all shards ready ─▶ READY ── a shard died ─▶ STARTING (next attempt, at once)
    STARTING ── a shard died ─▶ FAILED ── retry time reached, model not parked ─▶ STARTING (next attempt)
    READY ── a shard died early, and starts had failed before ─▶ FAILED
    any ── the planner's removal ─▶ DRAINING ── all shards proven gone ─▶ no row

Invariants. The attempt never goes back. Only a report of the row's own attempt changes the state. One death is counted
once. Absence proves nothing about a replica that should run: its agent starts it from the desired set. A row goes
only when every shard is proven gone, so its allocations are freed once. A step repeated on its own result with the
same reports changes nothing, so that it may be interrupted anywhere and run again.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from llmgw.core.amounts import counted
from llmgw.core.parking import (
    BackoffPolicy,
    after_early_death,
    after_failure,
    after_failure_on,
    after_success,
    for_revision,
)
from llmgw.schema.event import Event, Severity
from llmgw.schema.model import Model, ModelStatus, Parked
from llmgw.schema.replica import Replica, ReplicaState, Restart, Shard, ShardPhase
from llmgw.schema.report import Death, ShardReport
from llmgw.schema.value import Value

KEPT_RESTARTS = 10


class Step(Value, frozen=True, kw_only=True):
    """One step: the replica (`None`: its row goes), the model's status, and what is worth telling."""

    replica: Replica | None
    status: ModelStatus
    events: tuple[Event, ...] = ()


def advance(
    replica: Replica,
    *,
    model: Model | None,
    status: ModelStatus,
    reports: Mapping[str, ShardReport],
    heard: frozenset[str],
    policy: BackoffPolicy,
    now: datetime,
    gone: frozenset[str] = frozenset(),
) -> Step:
    """Take one step.

    `heard` names nodes whose reports prove absence: heard since this leader leads and, for a strict proof, having
    obeyed the last set sent to them. `gone` names nodes that are lost or removed.
    """
    if model is not None:
        status = for_revision(status, model.revision)
    known = _Known(model=model, status=status, reports=reports, heard=heard, gone=gone, policy=policy, now=now)
    seen = _observe(replica, reports)
    match replica.state:
        case ReplicaState.DRAINING:
            return _drain(seen, known)
        case ReplicaState.FAILED:
            return _retry(seen, known)
        case ReplicaState.READY:
            return _watch_ready(seen, replica, known)
        case ReplicaState.STARTING:
            return _watch_start(seen, known)


class _Known(Value, frozen=True, kw_only=True):
    """All that a step looks at beside the replica."""

    model: Model | None
    status: ModelStatus
    reports: Mapping[str, ShardReport]
    heard: frozenset[str]
    gone: frozenset[str]
    policy: BackoffPolicy
    now: datetime

    def report(self, replica: Replica, shard: Shard) -> ShardReport | None:
        """Give the report of a shard if it is of the replica's present attempt."""
        report = self.reports.get(shard.id)
        return report if report is not None and report.attempt == replica.attempt else None

    def wants(self, replica: Replica) -> bool:
        """True when the replica is of its model's present revision."""
        return self.model is not None and self.model.revision == replica.revision


def _drain(replica: Replica, known: _Known) -> Step:
    if not all(_is_gone(shard, known) for shard in replica.shards):
        return Step(replica=replica, status=known.status)
    text = f"is gone: {replica.reason or 'not wanted'}"
    event = _event(replica, known.now, "replica.removed", text)
    return Step(replica=None, status=known.status, events=(event,))


def _is_gone(shard: Shard, known: _Known) -> bool:
    node = shard.allocation.node
    if node in known.gone:
        return True
    report = known.reports.get(shard.id)
    return node in known.heard and (report is None or report.phase is ShardPhase.DEAD)


def _retry(replica: Replica, known: _Known) -> Step:
    status = known.status
    is_early = status.retry_at is not None and known.now < status.retry_at
    if not known.wants(replica) or status.parked is not None or is_early:
        return Step(replica=replica, status=status)
    return Step(replica=_again(replica, replica.reason or "tried again", known.now), status=status)


def _watch_ready(seen: Replica, before: Replica, known: _Known) -> Step:
    died = _death(seen, known)
    if died is None:
        return _prove(_unready(seen, before, known), known)
    shard, death = died
    cause = _cause(seen, shard, death)
    if not known.wants(seen):
        return _give_up(seen, shard, cause, known)
    if known.status.parked is not None:
        return Step(replica=_to(seen, ReplicaState.FAILED, known.now, cause), status=known.status)
    status = after_failure_on(known.status, shard.allocation.node, known.now)
    if not _is_steady(seen, known):
        status = after_early_death(status, msgspec.structs.replace(death, cause=cause), known.policy, known.now)
        if status.parked is not None or status.retry_at is not None:
            return _fail(seen, shard, f"died soon after its start: {cause}", status, known)
    text = f"died and is started again: {cause}"
    event = _event(seen, known.now, "replica.restarted", text, severity=Severity.WARNING, shard=shard)
    return Step(replica=_again(seen, cause, known.now), status=status, events=(event,))


def _prove(replica: Replica, known: _Known) -> Step:
    """Count the start as good, once, when the replica has been ready for long enough."""
    if replica.proven or replica.state is not ReplicaState.READY or not _is_steady(replica, known):
        return Step(replica=replica, status=known.status)
    return Step(replica=msgspec.structs.replace(replica, proven=True), status=after_success(known.status))


def _is_steady(replica: Replica, known: _Known) -> bool:
    steady = timedelta(seconds=known.policy.steady_s)
    return replica.proven or (replica.ready_at is not None and known.now - replica.ready_at >= steady)


def _watch_start(replica: Replica, known: _Known) -> Step:
    died = _death(replica, known)
    if died is None:
        return _settle(replica, known)
    shard, death = died
    cause = _cause(replica, shard, death)
    if not known.wants(replica):
        return _give_up(replica, shard, cause, known)
    status = after_failure_on(known.status, shard.allocation.node, known.now)
    status = after_failure(status, msgspec.structs.replace(death, cause=cause), known.policy, known.now)
    return _fail(replica, shard, f"failed to start: {cause}", status, known)


def _fail(replica: Replica, shard: Shard, what: str, status: ModelStatus, known: _Known) -> Step:
    """Wait for the next try, or for ever when the model is parked now."""
    events = [_event(replica, known.now, "replica.start_failed", what, severity=Severity.WARNING, shard=shard)]
    if status.parked is not None and known.status.parked is None:
        events.append(_parked(replica, status.parked, known.now))
    failed = _to(replica, ReplicaState.FAILED, known.now, status.last_failure)
    return Step(replica=failed, status=status, events=tuple(events))


def _settle(replica: Replica, known: _Known) -> Step:
    """Make a starting replica ready once all its shards are."""
    reports = [known.report(replica, shard) for shard in replica.shards]
    if any(report is None or report.phase is not ShardPhase.READY for report in reports):
        return Step(replica=replica, status=known.status)
    ready = msgspec.structs.replace(_to(replica, ReplicaState.READY, known.now, None), ready_at=known.now, proven=False)
    event = _event(replica, known.now, "replica.ready", "is ready")
    return Step(replica=ready, status=known.status, events=(event,))


def _unready(seen: Replica, before: Replica, known: _Known) -> Replica:
    """Take a ready replica back to starting when an agent had to start a shard of it anew.

    An adopted process counts as the one it was, also while its agent still makes sure of it: it keeps its traffic.
    """
    for shard, was in zip(seen.shards, before.shards, strict=True):
        report = known.report(seen, shard)
        if report is None or report.phase is not ShardPhase.STARTING or report.adopted or report.pid == was.pid:
            continue
        reason = f"started anew by the agent of {shard.allocation.node}"
        return msgspec.structs.replace(_to(seen, ReplicaState.STARTING, known.now, reason), ready_at=None)
    return seen


def _death(replica: Replica, known: _Known) -> tuple[Shard, Death] | None:
    """Give the first death of this attempt that nobody asked for. An asked one is followed by the agent's restart."""
    for shard in replica.shards:
        report = known.report(replica, shard)
        if report is None or report.phase is not ShardPhase.DEAD:
            continue
        death = report.death or Death(status=None, asked=False, cause="the engine ended, its agent does not say why")
        if not death.asked:
            return shard, death
    return None


def _cause(replica: Replica, shard: Shard, death: Death) -> str:
    if len(replica.shards) == 1:
        return death.cause
    return f"shard {shard.rank} on {shard.allocation.node}: {death.cause}"


def _give_up(replica: Replica, shard: Shard, cause: str, known: _Known) -> Step:
    """Nobody wants a replica back that died while its model was changed or removed."""
    reason = f"{cause}; not started again, its model was {'removed' if known.model is None else 'changed'}"
    event = _event(replica, known.now, "replica.draining", f"is stopped: {reason}", shard=shard)
    draining = _to(replica, ReplicaState.DRAINING, known.now, reason)
    return Step(replica=draining, status=known.status, events=(event,))


def _observe(replica: Replica, reports: Mapping[str, ShardReport]) -> Replica:
    """Fold in what agents see of this attempt."""
    shards = tuple(_seen(shard, reports.get(shard.id), replica.attempt) for shard in replica.shards)
    return replica if shards == replica.shards else msgspec.structs.replace(replica, shards=shards)


def _seen(shard: Shard, report: ShardReport | None, attempt: int) -> Shard:
    if report is None or report.attempt != attempt:
        return shard
    return msgspec.structs.replace(
        shard,
        phase=report.phase,
        endpoint=report.endpoint,
        pid=report.pid,
        engine_version=report.engine_version,
        started_at=report.started_at,
        slots=report.slots,
        context=report.context,
    )


def _again(replica: Replica, reason: str, now: datetime) -> Replica:
    restarts = (*replica.restarts, Restart(at=now, reason=reason))[-KEPT_RESTARTS:]
    return msgspec.structs.replace(
        _to(replica, ReplicaState.STARTING, now, reason),
        attempt=replica.attempt + 1,
        shards=tuple(_blank(shard) for shard in replica.shards),
        ready_at=None,
        proven=False,
        restarts=restarts,
        restart_count=replica.restart_count + 1,
    )


def _blank(shard: Shard) -> Shard:
    return Shard(id=shard.id, rank=shard.rank, allocation=shard.allocation, key=shard.key)


def _to(replica: Replica, state: ReplicaState, now: datetime, reason: str | None) -> Replica:
    return msgspec.structs.replace(replica, state=state, state_since=now, reason=reason)


def _parked(replica: Replica, parked: Parked, now: datetime) -> Event:
    return Event(
        at=now,
        kind="model.parked",
        severity=Severity.ERROR,
        message=f"model {replica.model} is parked after {counted(parked.failures, 'failed start')}: {parked.reason}",
        model=replica.model,
        replica=replica.id,
    )


def _event(
    replica: Replica,
    now: datetime,
    kind: str,
    what: str,
    *,
    severity: Severity = Severity.INFO,
    shard: Shard | None = None,
) -> Event:
    return Event(
        at=now,
        kind=kind,
        severity=severity,
        message=f"replica {replica.id} of {replica.model} {what}",
        node=None if shard is None else shard.allocation.node,
        model=replica.model,
        replica=replica.id,
    )
