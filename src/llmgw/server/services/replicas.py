"""Replicas: running copies of models."""

from collections.abc import Mapping

from llmgw.schema.admin.replica import ReplicaRow, ShardRow
from llmgw.schema.errors import NotFound
from llmgw.schema.replica import Replica, Shard
from llmgw.schema.report import Load, ShardReport
from llmgw.server.fleet import Fleet


def all_replicas(fleet: Fleet) -> tuple[ReplicaRow, ...]:
    """Give all replicas, by model, then by age."""
    reports, loads = live_reports(fleet), fresh_loads(fleet)
    ordered = sorted(fleet.rows.replicas, key=lambda replica: (replica.model, replica.created_at, replica.id))
    return tuple(replica_row(replica, reports, loads) for replica in ordered)


def one_replica(fleet: Fleet, replica_id: str) -> ReplicaRow:
    """Give one replica. Raises `NotFound`."""
    return replica_row(find(fleet, replica_id), live_reports(fleet), fresh_loads(fleet))


def find(fleet: Fleet, replica_id: str) -> Replica:
    """Give a replica as stored. Raises `NotFound`."""
    for replica in fleet.rows.replicas:
        if replica.id == replica_id:
            return replica
    raise NotFound(f"there is no replica {replica_id!r}", hint="llmgw ctl replica list shows those there are")


def live_reports(fleet: Fleet) -> dict[str, ShardReport]:
    """Give what agents say now of their shards, by shard id."""
    heard = (fleet.node_live(node.id) for node in fleet.rows.nodes)
    return {report.id: report for live in heard if live is not None for report in live.reports}


def fresh_loads(fleet: Fleet) -> dict[str, Load]:
    """Give the nodes' loads with their age now, by node id; those over a minute old are left out."""
    found = ((node.id, fleet.fresh_load(node.id)) for node in fleet.rows.nodes)
    return {node: load for node, load in found if load is not None}


def replica_row(replica: Replica, reports: Mapping[str, ShardReport], loads: Mapping[str, Load]) -> ReplicaRow:
    """Show a replica, with the progress of shards that start, and what each shard uses."""
    return ReplicaRow(
        id=replica.id,
        model=replica.model,
        revision=replica.revision,
        state=replica.state,
        reason=replica.reason,
        attempt=replica.attempt,
        created_at=replica.created_at,
        state_since=replica.state_since,
        ready_at=replica.ready_at,
        restart_count=replica.restart_count,
        restarts=replica.restarts,
        shards=tuple(
            _shard_row(shard, reports.get(shard.id), replica.attempt, loads.get(shard.allocation.node))
            for shard in replica.shards
        ),
    )


def _shard_row(shard: Shard, report: ShardReport | None, attempt: int, load: Load | None) -> ShardRow:
    used = load.of(shard.id) if load is not None else None
    progress = report.progress if report is not None and report.attempt == attempt else None
    return ShardRow(
        id=shard.id,
        rank=shard.rank,
        node=shard.allocation.node,
        phase=shard.phase,
        endpoint=shard.endpoint,
        pid=shard.pid,
        engine_version=shard.engine_version,
        started_at=shard.started_at,
        slots=shard.slots,
        context=shard.context,
        progress=progress,
        allocation=shard.allocation,
        load=used,
        load_age_s=load.age_s if load is not None and used is not None else None,
    )
