"""Replicas and shards: running copies of models."""

from datetime import datetime
from enum import StrEnum

from llmgw.schema.plan import Allocation
from llmgw.schema.value import Value


class ReplicaState(StrEnum):
    """State of a replica as the control plane sees it."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    """No longer routed to; its engines end, then the row goes."""
    FAILED = "failed"
    """A start failed; waits for its back-off, or for its model to be unparked."""


class ShardPhase(StrEnum):
    """Phase of a shard's engine as its agent sees it."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    DEAD = "dead"
    """Its process group is gone, port and memory verified free."""


class Restart(Value, frozen=True, kw_only=True):
    """One restart of a replica, with its reason in words."""

    at: datetime
    reason: str


class Shard(Value, frozen=True, kw_only=True):
    """One engine process group of a replica, as stored. Runtime fields are as last reported."""

    id: str
    """`<replica>.<rank>`."""
    rank: int
    allocation: Allocation
    key: str
    """The engine's API key. Stored recoverably: a standby must rebuild its routing view."""
    phase: ShardPhase = ShardPhase.STARTING
    endpoint: str | None = None
    """`http://127.0.0.1:PORT` on the shard's node."""
    pid: int | None = None
    engine_version: str | None = None
    started_at: datetime | None = None
    slots: int | None = None
    context: int | None = None


class Replica(Value, frozen=True, kw_only=True):
    """One running copy of a model. The id is never reused and stays over restarts; `attempt` grows with each."""

    id: str
    model: str
    revision: int
    state: ReplicaState
    shards: tuple[Shard, ...]
    attempt: int = 1
    created_at: datetime
    state_since: datetime
    ready_at: datetime | None = None
    proven: bool = False
    """It has been ready for long enough that its start counts as good."""
    restarts: tuple[Restart, ...] = ()
    """The last ten; `restart_count` counts all."""
    restart_count: int = 0
    reason: str | None = None
    """Why it is in this state, in words."""
