"""A whole cluster in one process: memory store, fake clock, fake nodes, no sockets, no real time, faults on demand.

Control planes are the real ones down to the messages of agents: lease, fleet, reconciler, agents, routing view.
What they share is the store and the nodes; a crash throws one away between any two of its steps.
"""

import itertools
import random
from typing import Any

from llmgw.core.lease import Candidate
from llmgw.core.node_intent import with_intent
from llmgw.core.parking import BackoffPolicy
from llmgw.core.planner import plan
from llmgw.ports import FleetRows, PutModel, PutNode, PutStatus
from llmgw.schema.errors import LlmgwError, StoreUnavailable
from llmgw.schema.event import Event
from llmgw.schema.link import Order, Refused, ServerMessage
from llmgw.schema.model import Model, ModelStatus, Profile
from llmgw.schema.node import Intent
from llmgw.schema.plan import Claim
from llmgw.schema.view import Route
from llmgw.schema.weights import Weights
from llmgw.server.agents import Agents
from llmgw.server.demand import DemandBoard
from llmgw.server.execute import Names
from llmgw.server.fleet import Fleet
from llmgw.server.hearing import HearingClock
from llmgw.server.lease import LeaseThread
from llmgw.server.live import LiveNodes
from llmgw.server.observe import Observer, Resolved
from llmgw.server.reconcile import Reconciler
from llmgw.server.registration import Silence
from llmgw.server.turn import Planner, Rules
from llmgw.server.view import routes
from llmgw.store.memory import MemoryStore
from llmgw.testing.clock import FakeClock
from llmgw.testing.fake_node import FakeNode
from llmgw.testing.faulty_store import FaultyStore

TICK_S = 0.5
QUIET_S = 20.0
"""Seconds without a write or a start: longer than the back-off before the last try (16 s), and than any silence."""
TOKEN = "token"  # noqa: S105 - of a cluster that is not there


class Crash(BaseException):
    """The control plane's process is gone. No handler of its own may catch this."""


class SimulatedStream:
    """One agent's stream: what the control plane sent and the node has not read yet."""

    def __init__(self, node: str, number: int) -> None:
        self.node = node
        self.number = number
        self.closed: str | None = None
        self.waiting: list[ServerMessage] = []

    def send(self, message: ServerMessage) -> None:
        """Send a message; of several orders the last wins."""
        if isinstance(message, Order):
            self.waiting = [kept for kept in self.waiting if not isinstance(kept, Order)]
        self.waiting.append(message)

    def close(self, reason: str) -> None:
        """Close the stream."""
        self.closed = reason


class ControlPlane:
    """One control plane as a simulated process."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self.live = LiveNodes()
        self.streams: dict[str, SimulatedStream] = {}
        me = Candidate(holder=f"{name}-{next(cluster.numbers)}", name=name, address=f"http://{name}")
        self.lease = LeaseThread(cluster.memory.lease_store(), cluster.clock, me, pause=lambda _: None)
        self.hearing = HearingClock(cluster.clock)
        self.board = DemandBoard(self.hearing)
        self.agents = Agents(live=self.live, lease=self.lease, clock=cluster.clock, hearing=self.hearing)
        self.busy = False
        """Its loop is stuck: its lease thread runs on, nothing else does, and nobody is heard."""
        self._cluster = cluster
        self._leads = False
        self._observer = Observer(resolved)
        self.fleet = Fleet(
            store=cluster.store,
            clock=cluster.clock,
            lease=self.lease,
            observer=self._observer,
            live=self.live,
            demand=self.board,
            logs=self.agents,
        )
        self._reconciler: Reconciler | None = None

    async def step(self) -> None:
        """Do what the process does in one tick. May raise `Crash`."""
        self._step_lease()
        if self.busy:
            return
        self.hearing.beat()
        if self.lease.is_leader() != self._leads:
            await self._change()
        if self._reconciler is not None:
            try:
                await self._reconciler.turn()
            except LlmgwError:
                return

    def routes(self) -> tuple[Route, ...]:
        """Give what gateways would be told."""
        reports = {report.id: report for live in self.live.all() for report in live.reports}
        return routes(self.fleet.rows, reports)

    def _step_lease(self) -> None:
        # A thread would wait between actions; here a tick of the clock is all the waiting there is.
        for _ in range(4):
            self.lease.turn()

    async def _change(self) -> None:
        if self._leads:
            self.agents.close("it no longer leads")
            self._reconciler, self._leads = None, False
            return
        try:
            await self.fleet.load()
        except StoreUnavailable:
            return
        self._leads = True
        self._reconciler = Reconciler(
            fleet=self.fleet,
            live=self.live,
            orders=self.agents,
            lease=self.lease,
            clock=self._cluster.clock,
            observer=self._observer,
            rules=self._cluster.rules(leading_since=self.hearing.monotonic()),
            hearing=self.hearing,
            answering=self.board.answering,
        )
        self.agents.open()


class Cluster:
    """Nodes, a store, and control planes that come and go. Everything random comes from one seed."""

    def __init__(self, *, nodes: int = 1, seed: int = 0, planner: Planner = plan, lost_after_s: float = 300.0) -> None:
        self.clock = FakeClock()
        self.memory = MemoryStore(self.clock)
        self.store = FaultyStore(self.memory)
        self.random = random.Random(seed)
        self.numbers = itertools.count(1)
        self.nodes = {name: FakeNode(name) for name in (f"node-{number}" for number in range(1, nodes + 1))}
        self.cut_off: set[str] = set()
        """Nodes no control plane can reach now."""
        self.frozen: set[str] = set()
        """Nodes whose agent neither reads nor speaks; their streams stay open and their engines run."""
        self.heartbeat_loss = 0.0
        """Share of heartbeats that never arrive."""
        self.slow_store_s = 0.0
        """How long each transaction takes; nothing else happens meanwhile."""
        self.store.during = lambda: self.clock.advance(self.slow_store_s)
        self._planner = planner
        self._lost_after_s = lost_after_s
        self._streams = itertools.count(1)
        self._ids = itertools.count(1)
        self.planes = [ControlPlane(self, "control-1")]

    # Running -------------------------------------------------------------------------------------

    async def run(self, seconds: float) -> None:
        """Let time pass; a control plane that crashes stays away until `start`."""
        for _ in range(round(seconds / TICK_S)):
            await self.tick()

    async def tick(self) -> None:
        """Let half a second pass: control planes work, messages arrive, engines make progress."""
        for plane in tuple(self.planes):
            try:
                await plane.step()
            except Crash:
                self.kill(plane)
                continue
            for node in self.nodes.values():
                self._exchange(plane, node)
        for node in self.nodes.values():
            node.step()
        self.clock.advance(TICK_S)

    async def settle(self, *, longest_s: float = 300.0) -> None:
        """Let time pass until `QUIET_S` seconds brought no write and no engine start. Raises when that never comes."""
        quiet = 0.0
        for _ in range(round(longest_s / TICK_S)):
            before = self._activity()
            await self.tick()
            quiet = quiet + TICK_S if self._activity() == before else 0.0
            if quiet >= QUIET_S and self.planes:
                return
        raise AssertionError(f"the cluster did not come to rest within {longest_s} s")

    def start(self, name: str = "control-1") -> ControlPlane:
        """Start a control plane."""
        plane = ControlPlane(self, name)
        self.planes.append(plane)
        return plane

    def kill(self, plane: ControlPlane) -> None:
        """End a control plane as kill -9 does: streams break, the lease stays in its name."""
        self.planes.remove(plane)

    def stop(self, plane: ControlPlane) -> None:
        """End a control plane as SIGTERM does."""
        plane.agents.close("it stops")
        plane.lease.release_and_stop()
        for _ in range(4):
            plane.lease.turn()
        self.planes.remove(plane)

    def leader(self) -> ControlPlane:
        """Give the control plane that leads."""
        return next(plane for plane in self.planes if plane.lease.is_leader())

    def disconnect(self, node: str) -> None:
        """Break a node's streams; it says hello again with the next tick unless it is in `cut_off`."""
        for plane in self.planes:
            stream = plane.streams.pop(node, None)
            if stream is not None:
                plane.agents.closed(stream)

    def say_hello_again(self, node: str) -> None:
        """Register a node a second time while its first stream is still open, as after a cut nobody noticed."""
        for plane in self.planes:
            if node in plane.streams:
                self._greet(plane, self.nodes[node])

    # Operators -----------------------------------------------------------------------------------

    async def serve(self, name: str, *, replicas: int = 1, cores: float = 1.0, **fields: Any) -> None:
        """Ask for a model. `fields` are more of it."""
        model = Model(
            name=name,
            source="hf:org/model@main",
            min=replicas,
            max=replicas,
            profile=Profile(cores=cores),
            created_at=self.clock.now(),
            **fields,
        )
        await self.leader().fleet.write((PutModel(model=model), PutStatus(status=ModelStatus(model=name))))

    async def want(self, node: str, intent: Intent, reason: str | None = None) -> None:
        """Cordon, drain or uncordon a node."""
        await self.leader().fleet.change(
            lambda rows: [PutNode(node=with_intent(one, intent, reason)) for one in rows.nodes if one.id == node]
        )

    async def events(self, kind: str) -> list[Event]:
        """Read the events of one kind, oldest first."""
        return [event for event in reversed(await self.memory.load_events(limit=10_000)) if event.kind == kind]

    async def rows(self) -> FleetRows:
        """Read what is stored."""
        return await self.memory.load_fleet()

    # Evidence ------------------------------------------------------------------------------------

    def running(self) -> dict[str, list[str]]:
        """Give the engines that hold memory now: per model, their shards."""
        found: dict[str, list[str]] = {}
        for node in self.nodes.values():
            for report in node.running():
                found.setdefault(report.model, []).append(report.id)
        return found

    def starts(self) -> list[tuple[str, int]]:
        """Give all engine starts there ever were: (shard, attempt)."""
        return [start for node in self.nodes.values() for start in node.starts]

    def rules(self, *, leading_since: float) -> Rules:
        """Give the rules of a term that begins now."""
        return Rules(
            planner=self._planner,
            policy=BackoffPolicy(base_s=2.0, max_s=60.0, park_after=5),
            silence=Silence(unreachable_after_s=15.0, lost_after_s=self._lost_after_s, leading_since=leading_since),
            names=Names(replica=lambda: f"r{next(self._ids):010d}", engine_key=lambda: f"le_{next(self._ids):08d}"),
        )

    # Messages ------------------------------------------------------------------------------------

    def _exchange(self, plane: ControlPlane, node: FakeNode) -> None:
        if plane.busy:
            return
        stream = plane.streams.get(node.id)
        if node.id in self.cut_off or (stream is not None and stream.closed is not None):
            plane.streams.pop(node.id, None)
            if stream is not None:
                plane.agents.closed(stream)
            return
        if stream is None:
            self._greet(plane, node)
            return
        if node.id in self.frozen:
            return
        waiting, stream.waiting = stream.waiting, []
        for message in waiting:
            if isinstance(message, Order):
                refusal = node.obey(message.state)
                if refusal is not None:
                    plane.agents.said(stream, refusal)
        if not self.heartbeat_loss or self.random.random() >= self.heartbeat_loss:
            plane.agents.heard(stream)
            plane.agents.said(stream, node.heartbeat())

    def _greet(self, plane: ControlPlane, node: FakeNode) -> None:
        hello = node.hello(TOKEN)
        if isinstance(plane.agents.admit(hello), Refused):
            return
        stream = SimulatedStream(node.id, next(self._streams))
        plane.streams[node.id] = stream
        plane.agents.opened(stream, hello)

    def _activity(self) -> tuple[int, int]:
        return self.store.applied, len(self.starts())


def resolved(
    model: Model,
    weights: Weights | None,  # noqa: ARG001 - part of the port; a simulated engine needs none
    cores_usable: float | None,  # noqa: ARG001 - the same
) -> Resolved:
    """Resolve as an engine would that needs just the cores asked for."""
    return Resolved(profile=model.profile, claim=Claim(cores=model.profile.cores))
