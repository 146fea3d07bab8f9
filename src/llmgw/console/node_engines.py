"""The engines on one node: each with its replica."""

from collections.abc import Iterable

from llmgw.schema.admin.node import NodeRow
from llmgw.schema.admin.replica import ReplicaRow, ShardRow
from llmgw.schema.replica import ReplicaState
from llmgw.schema.value import Value

_ORDER = (ReplicaState.FAILED, ReplicaState.STARTING, ReplicaState.DRAINING, ReplicaState.READY)


class NodeEngine(Value, frozen=True, kw_only=True):
    """One shard here and the replica it belongs to."""

    replica: ReplicaRow
    shard: ShardRow

    @property
    def told(self) -> str:
        """What there is to say of it: why it failed, what it does while it starts, why it began anew."""
        if self.replica.reason:
            return self.replica.reason
        if self.shard.progress:
            return self.shard.progress
        if self.replica.restarts:
            return f"last restart: {self.replica.restarts[-1].reason}"
        return ""


def node_engines(node: NodeRow, replicas: Iterable[ReplicaRow]) -> tuple[NodeEngine, ...]:
    """Give the engines placed on a node, those that do not serve first."""
    here = (
        NodeEngine(replica=replica, shard=shard)
        for replica in replicas
        for shard in replica.shards
        if shard.node == node.id
    )
    return tuple(sorted(here, key=lambda one: (_ORDER.index(one.replica.state), one.replica.model, one.shard.id)))
