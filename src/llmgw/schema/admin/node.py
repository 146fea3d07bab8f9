"""Nodes as operators see them."""

from datetime import datetime

from llmgw.schema.node import Intent, NodeFacts, NodeState, Reachability, Replacement
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import Load, ShardLoad
from llmgw.schema.value import Value


class HeldRow(Value, frozen=True, kw_only=True):
    """What replicas hold on a node."""

    cores: float
    memory_bytes: int
    devices: tuple[str, ...] = ()


class FreeRow(Value, frozen=True, kw_only=True):
    """What may still be placed on a node; `None` where the node's total is unknown."""

    cores: float | None = None
    memory_bytes: int | None = None
    devices: tuple[str, ...] = ()


class NodeShard(Value, frozen=True, kw_only=True):
    """One engine placed on a node, and what it uses."""

    shard: str
    replica: str
    model: str
    phase: ShardPhase
    load: ShardLoad | None = None
    """Of the node's measurement and of its age; absent when that is, or when it does not tell of this engine."""


class NodeRow(Value, frozen=True, kw_only=True):
    """A node with its shown state."""

    id: str
    state: NodeState
    intent: Intent
    intent_reason: str | None = None
    reachability: Reachability
    reachability_since: datetime | None = None
    replacement: Replacement = Replacement.ALLOWED
    """Why a silent node is not replaced; says nothing of one that answers."""
    flaps: int = 0
    """How often its agent fell silent within the last ten minutes."""
    settles_at: datetime | None = None
    """It was silent and takes nothing new before; absent once that is over."""
    registered_at: datetime
    connected: bool
    """Its agent's stream to the leader is open now."""
    load: Load | None = None
    """The last measurement with its age now; absent when older than a minute."""
    held: HeldRow
    free: FreeRow
    replicas: tuple[str, ...] = ()
    """Ids of replicas with a shard here."""
    shards: tuple[NodeShard, ...] = ()
    """Engines placed here, by model, then by id."""
    facts: NodeFacts


class NodeList(Value, frozen=True, kw_only=True):
    """`GET /api/v1/nodes`."""

    nodes: tuple[NodeRow, ...]
