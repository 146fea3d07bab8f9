"""A fake node: obeys orders as an agent does, with engines that are only entries in a table.

It keeps what an agent keeps on disk, so that a restart of the agent is a new stream and nothing else.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from msgspec.structs import replace

from llmgw.schema.desired import DesiredShard, DesiredState, Mode
from llmgw.schema.link import Heartbeat, Hello, OrderRefused
from llmgw.schema.node import Host, NodeFacts
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import Death, ShardReport
from llmgw.testing.fake_load import fake_load

GIB = 1024**3

Note = Callable[[str, DesiredState, str | None], None]
"""Takes a node, an order, and why the node refused it; `None` when it obeyed."""


def fake_facts(node: str, *, cores: float = 8.0, memory_bytes: int = 64 * GIB) -> NodeFacts:
    """Give the facts of a CPU node that was not asked to look at weights."""
    return NodeFacts(
        hostname=node,
        address="127.0.0.1",
        place=f"boot-{node}:1",
        agent_version="0",
        host=Host(os="Debian GNU/Linux 12", kernel="6.1", machine="x86_64", cores_usable=cores),
        memory_bytes=memory_bytes,
    )


class FakeNode:
    """A node and its agent's memory. `starts` has every engine start there ever was, for tests to count."""

    def __init__(self, node: str, *, facts: NodeFacts | None = None) -> None:
        self.id = node
        self.facts = facts or fake_facts(node)
        self.starts: list[tuple[str, int]] = []
        self.epoch = 0
        self.holder: str | None = None
        self.generation = 0
        self.slow_stops = False
        """Stops take until `finish_stops`, as engines with open requests do."""
        self.note: Note | None = None
        """Told of each order, and why it was refused if it was. May be set."""
        self._wanted: dict[str, DesiredShard] = {}
        self._shards: dict[str, ShardReport] = {}
        self._broken: dict[str, Death] = {}
        self._ports = 20_000

    # What the control plane sees ------------------------------------------------------------------

    def hello(self, token: str) -> Hello:
        """Give the first message of a stream."""
        return Hello(
            node=self.id,
            token=token,
            facts=self.facts,
            shards=self.reports(),
            epoch=self.epoch,
            holder=self.holder,
            generation=self.generation,
        )

    def heartbeat(self) -> Heartbeat:
        """Give the state of everything now."""
        reports = self.reports()
        load = fake_load(self.facts, reports, time.monotonic())
        return Heartbeat(shards=reports, generation=self.generation, facts=self.facts, load=load)

    def reports(self) -> tuple[ShardReport, ...]:
        """Give all shards."""
        return tuple(self._shards[shard] for shard in sorted(self._shards))

    def obey(self, order: DesiredState) -> OrderRefused | None:
        """Carry out an order, or refuse a stale one."""
        reason = self._stale(order)
        if self.note is not None:
            self.note(self.id, order, reason)
        if reason is not None:
            return OrderRefused(
                epoch=order.epoch,
                generation=order.generation,
                reason=reason,
                highest_epoch=self.epoch,
                highest_holder=self.holder,
            )
        self.epoch, self.holder = order.epoch, order.holder
        if order.mode is Mode.ENFORCE:
            self.generation = order.generation
            self._wanted = {shard.id: shard for shard in order.shards}
            self._enforce()
        return None

    # What happens on the node --------------------------------------------------------------------

    def step(self) -> bool:
        """Let engines make progress: those that start become ready, or fail. True when anything changed."""
        before = self.reports()
        for shard in tuple(self._shards.values()):
            if shard.phase is ShardPhase.STARTING:
                self._shards[shard.id] = self._started(shard)
        self._enforce()
        return self.reports() != before

    def kill(self, shard: str, cause: str = "killed by signal 9") -> None:
        """Let an engine die without being asked to."""
        self._die(shard, Death(status=-9, asked=False, cause=cause))

    def forget(self, shard: str) -> None:
        """Let an engine vanish without a report, as when a node's disk is lost."""
        self._shards.pop(shard, None)

    def reboot(self) -> None:
        """Lose all engines and their records; what was obeyed is on disk."""
        self._shards.clear()
        self._wanted.clear()

    def break_model(self, model: str, death: Death) -> None:
        """Let all starts of a model fail from now on."""
        self._broken[model] = death

    def mend_model(self, model: str) -> None:
        """Let starts of a model succeed again."""
        self._broken.pop(model, None)

    def model_of(self, shard: str) -> str | None:
        """Give the model that a shard's engine answers for now; `None` when there is no such engine."""
        report = self._shards.get(shard)
        return report.model if report is not None and report.phase is ShardPhase.READY else None

    def fault(self, device: int, problem: str | None) -> None:
        """Let the device with this index be unhealthy, or healthy again; told with the next heartbeat."""
        devices = tuple(replace(one, problem=problem) if one.index == device else one for one in self.facts.devices)
        self.facts = replace(self.facts, devices=devices)

    def wanted(self, shard: str) -> DesiredShard | None:
        """Give a shard as it was ordered last; `None` when it is not wanted."""
        return self._wanted.get(shard)

    def starting(self) -> bool:
        """True while an engine starts."""
        return any(report.phase is ShardPhase.STARTING for report in self._shards.values())

    def finish_stops(self) -> None:
        """Let engines that were asked to stop end."""
        for shard in tuple(self._shards.values()):
            if shard.phase is ShardPhase.STOPPING:
                del self._shards[shard.id]
        self._enforce()

    def running(self) -> tuple[ShardReport, ...]:
        """Give the engines that hold memory now."""
        return tuple(report for report in self.reports() if report.phase is not ShardPhase.DEAD)

    def _stale(self, order: DesiredState) -> str | None:
        if order.epoch < self.epoch:
            return f"epoch {order.epoch} is lower than {self.epoch}"
        if order.epoch == self.epoch and self.holder not in {None, order.holder}:
            return f"epoch {order.epoch} was obeyed from another holder"
        if order.mode is Mode.ENFORCE and order.generation < self.generation:
            return f"generation {order.generation} is lower than {self.generation}"
        return None

    def _enforce(self) -> None:
        for shard in tuple(self._shards.values()):
            wanted = self._wanted.get(shard.id)
            if wanted is None or wanted.attempt > shard.attempt:
                self._stop(shard)
        for wanted in self._missing():
            self._start(wanted)

    def _missing(self) -> Iterator[DesiredShard]:
        for wanted in self._wanted.values():
            if wanted.id not in self._shards:
                yield wanted

    def _start(self, wanted: DesiredShard) -> None:
        self.starts.append((wanted.id, wanted.attempt))
        self._shards[wanted.id] = ShardReport(
            id=wanted.id,
            attempt=wanted.attempt,
            phase=ShardPhase.STARTING,
            model=wanted.model,
            engine=wanted.profile.engine,
            progress="loading weights",
        )

    def _started(self, shard: ShardReport) -> ShardReport:
        death = self._broken.get(shard.model)
        if death is not None:
            return replace(shard, phase=ShardPhase.DEAD, progress=None, death=death)
        self._ports += 1
        return replace(
            shard,
            phase=ShardPhase.READY,
            progress=None,
            endpoint=f"http://127.0.0.1:{self._ports}",
            pid=self._ports,
            engine_version="fake",
            started_at=datetime(2026, 1, 1, tzinfo=UTC),
            slots=4,
            context=4096,
        )

    def _stop(self, shard: ShardReport) -> None:
        if shard.phase is ShardPhase.DEAD or not self.slow_stops:
            del self._shards[shard.id]
        elif shard.phase is not ShardPhase.STOPPING:
            self._shards[shard.id] = replace(shard, phase=ShardPhase.STOPPING, progress=None)

    def _die(self, shard: str, death: Death) -> None:
        report = self._shards[shard]
        self._shards[shard] = replace(
            report, phase=ShardPhase.DEAD, endpoint=None, pid=None, progress=None, death=death
        )
