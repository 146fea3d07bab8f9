"""A node's last hour: from Prometheus where there is one and it answers, else from memory."""

from collections.abc import Mapping, Sequence

from llmgw.ports import Clock
from llmgw.schema.history import History
from llmgw.server.fleet import Fleet
from llmgw.server.history import KeptHistory
from llmgw.server.prometheus import Prometheus, PrometheusTrouble
from llmgw.server.prometheus_hour import prometheus_hour
from llmgw.server.services import nodes
from llmgw.telemetry import log

QUIET_S = 10.0
"""After a trouble Prometheus is not asked for so long: pages shall not each wait for one that does not answer."""
INSTEAD = "the last hour kept by this control plane is shown instead"

_log = log.get(__name__)


class NodeHistory:
    """Gives hours of nodes. What it cannot have from Prometheus it takes from memory, and says so."""

    def __init__(
        self,
        fleet: Fleet,
        clock: Clock,
        kept: KeptHistory,
        *,
        prometheus: Prometheus | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._kept = kept
        self._prometheus = prometheus
        self._labels = labels or {}
        self._trouble: tuple[float, str] | None = None

    async def hour(self, node_id: str) -> History:
        """Give a node's last hour. Raises `NotFound`."""
        nodes.find(self._fleet.rows, node_id)
        models = sorted(self._models(node_id))
        if self._prometheus is None:
            return self._kept.of(node_id, models, problem=self._standing())
        found = await self._asked(self._prometheus, node_id, models)
        if isinstance(found, str):
            return self._kept.of(node_id, models, problem=f"{found}: {INSTEAD}")
        if found.series:
            return found
        kept = self._kept.of(node_id, models)
        if not kept.series:
            return found  # neither knows anything: there is nothing to know
        return self._kept.of(
            node_id,
            models,
            problem=f"{self._prometheus.name} knows nothing of this node, is llmgw its target?: {INSTEAD}",
        )

    async def _asked(self, prometheus: Prometheus, node_id: str, models: Sequence[str]) -> History | str:
        """Ask Prometheus; its trouble in words, also one of a moment ago."""
        if self._trouble is not None and self._clock.monotonic() < self._trouble[0]:
            return self._trouble[1]
        now = self._clock.now().timestamp()
        try:
            found = await prometheus_hour(prometheus, node_id, models, labels=self._labels, now=now)
        except PrometheusTrouble as trouble:
            # Once: one that is away for hours is one event, not one for each look at a page.
            if self._trouble is None or self._trouble[1] != str(trouble):
                _log.warning("prometheus.trouble", error=str(trouble))
            self._trouble = (self._clock.monotonic() + QUIET_S, str(trouble))
            return str(trouble)
        if self._trouble is not None:
            _log.info("prometheus.answers")
        self._trouble = None
        return found

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
