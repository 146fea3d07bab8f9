"""What agents say now: streams, reports and loads. Kept in memory only, and only while this process leads."""

import msgspec

from llmgw.schema.node import NodeFacts
from llmgw.schema.report import LOAD_EXPIRES_S, Load, ShardReport
from llmgw.schema.value import Value
from llmgw.server.changes import Changes


class Live(Value, frozen=True, kw_only=True):
    """One agent as last heard since this control plane leads. Stamps are seconds of this machine's clocks."""

    node: str
    stream: int
    """Which of the node's streams this is; grows with each new one."""
    facts: NodeFacts
    reports: tuple[ShardReport, ...]
    """All shards of the node; kept as last heard when the stream is gone."""
    generation: int
    """Generation the agent obeyed last, as it said with `reports`."""
    connected: bool
    heard_at: float
    """When its last byte came, in hearing time."""
    load: Load | None = None
    load_at: float | None = None
    """When `load` came, in monotonic time; its own age at sending adds to it."""

    def fresh_load(self, now: float) -> Load | None:
        """Give the last load with its age grown to `now` (monotonic); `None` when unknown or over a minute old."""
        if self.load is None or self.load_at is None:
            return None
        age = max(0.0, self.load.age_s) + (now - self.load_at)
        if age > LOAD_EXPIRES_S:
            return None
        return msgspec.structs.replace(self.load, age_s=age)


class LiveNodes:
    """All agents heard since this control plane leads."""

    def __init__(self) -> None:
        self._nodes: dict[str, Live] = {}
        self.changes = Changes()
        """Told when facts, reports, generations or streams change; loads and signs of life are silent."""

    def get(self, node: str) -> Live | None:
        """Give one agent; `None` when it was not heard since this control plane leads."""
        return self._nodes.get(node)

    def all(self) -> tuple[Live, ...]:
        """Give all agents."""
        return tuple(self._nodes.values())

    def put(self, live: Live) -> None:
        """Take in what an agent said."""
        before = self._nodes.get(live.node)
        if before is not None and before.reports == live.reports:
            # Equal reports stay the same object: what was derived from them need not be made again.
            live = msgspec.structs.replace(live, reports=before.reports)
        self._nodes[live.node] = live
        if before is None or _told(before) != _told(live):
            self.changes.notify()

    def touch(self, node: str, heard_at: float) -> None:
        """Note a sign of life."""
        live = self._nodes.get(node)
        if live is not None:
            self._nodes[node] = msgspec.structs.replace(live, heard_at=heard_at)

    def disconnect(self, node: str) -> None:
        """Note that the stream of an agent is gone; what it said stays."""
        live = self._nodes.get(node)
        if live is not None:
            self.put(msgspec.structs.replace(live, connected=False))

    def forget(self) -> None:
        """Forget everything: another control plane may lead now, and what was heard ages unseen."""
        if self._nodes:
            self._nodes.clear()
            self.changes.notify()


def _told(live: Live) -> tuple[object, ...]:
    return live.stream, live.facts, live.reports, live.generation, live.connected
