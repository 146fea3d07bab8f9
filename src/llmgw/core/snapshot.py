"""The snapshot: all that a plan may look at, as one immutable value."""

from datetime import datetime

from llmgw.schema.model import Model, ModelStatus
from llmgw.schema.node import Node, NodeState
from llmgw.schema.plan import Claim
from llmgw.schema.replica import Replica
from llmgw.schema.report import ShardReport
from llmgw.schema.value import Value


class NodeSnapshot(Value, frozen=True, kw_only=True):
    """A node with its shown state and what its agent reported since this leader leads."""

    node: Node
    state: NodeState
    reports: tuple[ShardReport, ...] | None = None
    """`None`: not heard yet; nothing may be concluded from the absence of a shard."""
    settling: bool = False
    """It was silent a short while ago and takes nothing new yet."""


class ModelSnapshot(Value, frozen=True, kw_only=True):
    """A model with what became of it and what one shard of it needs."""

    model: Model
    status: ModelStatus
    claim: Claim
    wanted: int | None = None
    """Replicas demand asks for, see `core.demand`; `None`: nothing is known of demand."""


class Snapshot(Value, frozen=True, kw_only=True):
    """Observed and desired state at one moment. `now` is wall time, read once."""

    now: datetime
    nodes: tuple[NodeSnapshot, ...] = ()
    models: tuple[ModelSnapshot, ...] = ()
    replicas: tuple[Replica, ...] = ()
    doubtful: frozenset[str] = frozenset()
    """Ids of replicas stored as ready of which no agent says so now: they are not stopped, and nothing is stopped
    because of them."""
    kept: frozenset[str] = frozenset()
    """Judges that policies need: nobody is advised to stop them for others."""
    idle_s: dict[str, float] = {}  # noqa: RUF012 (msgspec copies empty mutable defaults)
    """Seconds since each replica was last asked, at least so many; without an entry nothing is known."""
