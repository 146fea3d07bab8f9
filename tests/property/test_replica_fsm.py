"""A replica's life under faults: agents that crash, orders that lag, leaders that are cut off after any step.

The promises, checked after every step: an attempt never goes back; a row goes only when no engine of it runs; what a
leader computed and could not write is computed again alike. And once the faults end, the replica is ready.
"""

import random
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.desired import desired_shards
from llmgw.core.parking import BackoffPolicy, unparked
from llmgw.core.replica_fsm import Step, advance
from llmgw.schema.desired import DesiredShard
from llmgw.schema.model import ModelStatus
from llmgw.schema.replica import Replica, ReplicaState, ShardPhase
from llmgw.schema.report import ShardReport
from llmgw.testing.factories import NOW, make_allocation, make_death, make_model, make_replica, make_report

POLICY = BackoffPolicy(base_s=2, max_s=60, park_after=5)
MODEL = make_model()


class Agent:
    """One node: runs what it was told last, and reports what it runs."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.engines: dict[str, ShardReport] = {}
        self.told: tuple[DesiredShard, ...] = ()
        self.generation = 0
        self._pids = 1000

    def obey(self, generation: int, shards: tuple[DesiredShard, ...]) -> None:
        self.generation, self.told = generation, shards
        wanted = {shard.id: shard for shard in shards}
        self.engines = {name: engine for name, engine in self.engines.items() if name in wanted}
        for shard in shards:
            running = self.engines.get(shard.id)
            if running is None or running.attempt < shard.attempt:
                self._start(shard)

    def progress(self) -> None:
        for name, engine in self.engines.items():
            if engine.phase is ShardPhase.STARTING:
                self.engines[name] = _in_phase(engine, ShardPhase.READY)

    def crash(self, rng: random.Random) -> None:
        """An engine dies by itself, or because we asked; the agent starts the latter again."""
        for name, engine in self.engines.items():
            if engine.phase is ShardPhase.DEAD:
                continue
            death = make_death("crash", heals=rng.random() < 0.95, counts=rng.random() < 0.8)
            self.engines[name] = _in_phase(engine, ShardPhase.DEAD, death=death)
            return

    def reboot(self) -> None:
        """Everything is gone; the agent has not been told again yet."""
        self.engines = {}

    def _start(self, shard: DesiredShard) -> None:
        self._pids += 1
        self.engines[shard.id] = ShardReport(
            id=shard.id,
            attempt=shard.attempt,
            phase=ShardPhase.STARTING,
            model=shard.model,
            engine=shard.profile.engine,
            pid=self._pids,
        )


class Leader:
    """Rows, and the loop that advances them. What it computed may be lost before it is written."""

    def __init__(self, replica: Replica, agents: tuple[Agent, ...]) -> None:
        self.replica: Replica | None = replica
        self.status = ModelStatus(model=MODEL.name)
        self.agents = agents
        self.generation = 0
        self.now: datetime = NOW

    def step(self, *, lost: bool = False) -> None:
        if self.replica is None:
            return
        made = self._compute()
        self._check(made)
        assert self._compute() == made, "a step that was lost is computed again alike"
        if lost:
            return
        before = self.replica
        self.replica, self.status = made.replica, made.status
        if self.replica is not None:
            assert self.replica.attempt >= before.attempt
            again = self._compute()
            assert (again.replica, again.status, again.events) == (self.replica, self.status, ())

    def order(self) -> None:
        self.generation += 1
        rows = [] if self.replica is None else [self.replica]
        for agent in self.agents:
            agent.obey(self.generation, desired_shards(agent.node, rows, {MODEL.name: MODEL}))

    def _compute(self) -> Step:
        assert self.replica is not None
        return advance(
            self.replica,
            model=MODEL,
            status=self.status,
            reports={name: report for agent in self.agents for name, report in agent.engines.items()},
            heard=frozenset(agent.node for agent in self.agents if agent.generation == self.generation),
            policy=POLICY,
            now=self.now,
        )

    def _check(self, made: Step) -> None:
        assert self.replica is not None
        running = [e for agent in self.agents for e in agent.engines.values() if e.phase is not ShardPhase.DEAD]
        if made.replica is None:
            assert running == [], "a row goes only when no engine of it runs"
            assert self.replica.state is ReplicaState.DRAINING
        elif made.replica.state is ReplicaState.READY and self.replica.state is not ReplicaState.READY:
            current = [engine for engine in running if engine.attempt == made.replica.attempt]
            assert len(current) == len(made.replica.shards), "ready means that all shards of this attempt run"
        if made.status.parked is not None and self.status.parked is None:
            assert made.replica is not None
            assert made.replica.state is ReplicaState.FAILED


def _in_phase(engine: ShardReport, phase: ShardPhase, **fields) -> ShardReport:
    shard = make_replica(engine.id.split(".")[0], allocations=[make_allocation()] * 3).shards[int(engine.id[-1])]
    return make_report(shard, attempt=engine.attempt, phase=phase, pid=engine.pid, **fields)


ACTS = ("step", "step", "step", "lost step", "order", "order", "progress", "crash", "reboot", "wait")


def play(leader: Leader, acts: list[str], rng: random.Random) -> None:
    for act in acts:
        agent = rng.choice(leader.agents)
        match act:
            case "step":
                leader.step()
            case "lost step":
                leader.step(lost=True)
            case "order":
                leader.order()
            case "progress":
                agent.progress()
            case "crash":
                agent.crash(rng)
            case "reboot":
                agent.reboot()
            case "wait":
                leader.now += timedelta(seconds=rng.choice([1, 10, 100]))


def calm(leader: Leader) -> None:
    """The faults end: what runs keeps running, every order arrives."""
    for _ in range(12):
        leader.step()
        leader.order()
        for agent in leader.agents:
            agent.progress()
        leader.now += timedelta(seconds=100)


def begin(shards: int) -> Leader:
    nodes = [f"n{number}" for number in range(shards)]
    replica = make_replica(state=ReplicaState.STARTING, allocations=[make_allocation(node) for node in nodes])
    return Leader(replica, tuple(Agent(node) for node in nodes))


acts = st.lists(st.sampled_from(ACTS), max_size=60)


@given(st.integers(1, 3), acts, st.integers(0, 2**32))
def test_once_faults_end_a_replica_is_ready_or_its_model_is_parked(shards: int, script: list[str], seed: int) -> None:
    leader = begin(shards)
    play(leader, script, random.Random(seed))
    calm(leader)
    assert leader.replica is not None
    if leader.status.parked is not None:
        assert leader.replica.state in (ReplicaState.FAILED, ReplicaState.READY)
        leader.status = unparked(leader.status)
        calm(leader)
    assert leader.replica.state is ReplicaState.READY
    assert leader.status.failures == 0
    for agent in leader.agents:
        assert {engine.attempt for engine in agent.engines.values()} == {leader.replica.attempt}


@given(st.integers(1, 3), acts, st.integers(0, 2**32))
def test_a_replica_that_is_stopped_is_gone_once_faults_end(shards: int, script: list[str], seed: int) -> None:
    leader, rng = begin(shards), random.Random(seed)
    half = len(script) // 2
    play(leader, script[:half], rng)
    assert leader.replica is not None
    leader.replica = make_replica(
        state=ReplicaState.DRAINING,
        allocations=[shard.allocation for shard in leader.replica.shards],
        attempt=leader.replica.attempt,
    )
    leader.order()
    play(leader, script[half:], rng)
    calm(leader)
    assert leader.replica is None
    assert all(agent.engines == {} for agent in leader.agents)


@given(st.integers(1, 3), acts, st.integers(0, 2**32), st.data())
def test_a_leader_cut_off_after_any_step_leaves_nothing_the_next_cannot_finish(
    shards: int, script: list[str], seed: int, data: st.DataObject
) -> None:
    leader = begin(shards)
    cut = data.draw(st.integers(0, len(script)))
    play(leader, script[:cut], random.Random(seed))
    heir = Leader(leader.replica or make_replica(), leader.agents)
    heir.status, heir.generation, heir.now = leader.status, leader.generation, leader.now
    calm(heir)
    assert heir.replica is not None
    assert heir.replica.state is ReplicaState.READY or heir.status.parked is not None
