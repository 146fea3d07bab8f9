"""Replicas as operators see them. The engine's key is never in them."""

from datetime import datetime

from llmgw.schema.plan import Allocation
from llmgw.schema.replica import ReplicaState, Restart, ShardPhase
from llmgw.schema.report import ShardLoad
from llmgw.schema.value import Value


class ShardRow(Value, frozen=True, kw_only=True):
    """One engine process group."""

    id: str
    rank: int
    node: str
    phase: ShardPhase
    endpoint: str | None = None
    pid: int | None = None
    engine_version: str | None = None
    started_at: datetime | None = None
    slots: int | None = None
    context: int | None = None
    progress: str | None = None
    """What a starting engine is doing, in words."""
    allocation: Allocation
    load: ShardLoad | None = None
    """What its engine uses; absent when the last measurement is older than a minute."""
    load_age_s: float | None = None


class ReplicaRow(Value, frozen=True, kw_only=True):
    """One running copy of a model."""

    id: str
    model: str
    revision: int
    state: ReplicaState
    reason: str | None = None
    attempt: int
    created_at: datetime
    state_since: datetime
    ready_at: datetime | None = None
    restart_count: int = 0
    restarts: tuple[Restart, ...] = ()
    """The last ten."""
    shards: tuple[ShardRow, ...]


class ReplicaList(Value, frozen=True, kw_only=True):
    """`GET /api/v1/replicas`."""

    replicas: tuple[ReplicaRow, ...]


class ShardLog(Value, frozen=True, kw_only=True):
    """The end of one shard's log; `error` says why there is none."""

    shard: str
    node: str
    attempt: int | None = None
    text: str | None = None
    error: str | None = None


class ReplicaLogs(Value, frozen=True, kw_only=True):
    """`GET /api/v1/replicas/ID/logs`, rank order."""

    logs: tuple[ShardLog, ...]
