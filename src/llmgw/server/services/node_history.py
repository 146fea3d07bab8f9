"""A node's last hour: from Prometheus where there is one and it answers, else from memory."""

from llmgw.schema.history import History
from llmgw.server.fleet import Fleet
from llmgw.server.history import KeptHistory
from llmgw.server.services import nodes


class NodeHistory:
    """Gives hours of nodes. What it cannot have from Prometheus it takes from memory, and says so."""

    def __init__(self, fleet: Fleet, kept: KeptHistory) -> None:
        self._fleet = fleet
        self._kept = kept

    async def hour(self, node_id: str) -> History:
        """Give a node's last hour. Raises `NotFound`."""
        nodes.find(self._fleet.rows, node_id)
        return self._kept.of(node_id, sorted(self._models(node_id)), problem=self._standing())

    def _models(self, node_id: str) -> frozenset[str]:
        """Name the models that run on the node, or did within the hour."""
        running = {
            replica.model
            for replica in self._fleet.rows.replicas
            if any(shard.allocation.node == node_id for shard in replica.shards)
        }
        return self._kept.models(node_id) | running

    def _standing(self) -> str | None:
        if self._fleet.is_leader():
            return None
        leader = self._fleet.leader_status().leader_name
        who = f"{leader} leads and keeps it" if leader else "no control plane leads now"
        return f"this control plane does not lead and hears no node: {who}"
