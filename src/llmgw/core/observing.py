"""After a restore, or a loss, nothing is ordered until an operator resumes: only what agents report is taken in."""

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec.structs import replace

from llmgw.core.amounts import counted
from llmgw.core.parking import BackoffPolicy
from llmgw.core.replica_fsm import Step, advance
from llmgw.core.snapshot import Snapshot
from llmgw.schema.backup import Observing
from llmgw.schema.model import ModelStatus
from llmgw.schema.node import Reachability
from llmgw.schema.replica import Replica, ReplicaState, Shard, ShardPhase
from llmgw.schema.report import ShardReport
from llmgw.schema.summary import Alarm, AlarmKind

OBSERVING_SETTING = "observing"
"""Setting that says why nothing is ordered, as JSON of `Observing`; absent, or empty once an operator has resumed: all
goes its normal way."""

RESUME = "llmgw ctl server resume"


def observing(settings: Mapping[str, str]) -> Observing | None:
    """Say why nothing is to be ordered; `None` when there is no reason."""
    text = settings.get(OBSERVING_SETTING)
    return msgspec.json.decode(text, type=Observing) if text else None


def written(reason: Observing) -> str:
    """Give the setting's value."""
    return msgspec.json.encode(reason).decode()


def observing_alarm(reason: Observing, snapshot: Snapshot) -> Alarm:
    """Say it to operators, with what a resume would meet."""
    silent = sum(
        seen.node.reachability is not Reachability.CONNECTED or seen.reports is None for seen in snapshot.nodes
    )
    known = {shard.id for replica in snapshot.replicas for shard in replica.shards}
    strangers = sum(report.id not in known for seen in snapshot.nodes for report in seen.reports or ())
    if reason.taken_at is None:
        engines = f"{counted(strangers, 'engine')} it does not know"
        until = f"until a backup is restored, or `{RESUME}` stops them"
        text = f"the store is empty, and nodes run {engines}: observing {until}"
        return Alarm(kind=AlarmKind.OBSERVING, text=text)
    parts = [f"restored from a backup of {reason.taken_at:%Y-%m-%d %H:%M} UTC: observing until `{RESUME}`"]
    if silent:
        parts.append(f"{silent} of {counted(len(snapshot.nodes), 'node')} not heard yet")
    if strangers:
        parts.append(f"resuming stops {counted(strangers, 'engine')} the backup does not know")
    return Alarm(kind=AlarmKind.OBSERVING, text="; ".join(parts))


def unheard(replica: Replica, reason: str, now: datetime) -> Replica:
    """Give a replica that counted as ready as one that does not, until its agents say so."""
    if replica.state is not ReplicaState.READY:
        return replica
    shards = tuple(
        Shard(id=shard.id, rank=shard.rank, allocation=shard.allocation, key=shard.key) for shard in replica.shards
    )
    return replace(
        replica, state=ReplicaState.STARTING, state_since=now, ready_at=None, proven=False, reason=reason, shards=shards
    )


def observed(
    replica: Replica,
    *,
    reports: Mapping[str, ShardReport],
    connected: frozenset[str],
    policy: BackoffPolicy,
    now: datetime,
) -> Step:
    """Take in what the agents of `connected` nodes report of a replica, and decide nothing.

    It is ready while all its engines are, also in a start that this store does not know of, since it was ordered after
    the backup was taken.
    """
    nothing = ModelStatus(model=replica.model, revision=replica.revision)
    if replica.state is ReplicaState.DRAINING or any(one.allocation.node not in connected for one in replica.shards):
        return Step(replica=replica, status=nothing)
    found = [reports.get(shard.id) for shard in replica.shards]
    ready = [report for report in found if report is not None and report.phase is ShardPhase.READY]
    attempts = {report.attempt for report in ready}
    if len(ready) < len(found) or len(attempts) > 1 or min(attempts) < replica.attempt:
        reason = "its engine is not there; it is started again once an operator resumes"
        return Step(replica=unheard(replica, reason, now), status=nothing)
    if attempts != {replica.attempt} or replica.state is ReplicaState.FAILED:
        replica = replace(replica, attempt=min(attempts), state=ReplicaState.STARTING)
    return advance(replica, model=None, status=nothing, reports=reports, heard=frozenset(), policy=policy, now=now)
