"""One turn of the reconciler as a pure decision: rows and reports in, writes out. Applied, the next turn gives none."""

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from llmgw.core.desired import watch_paths
from llmgw.core.node_intent import drained
from llmgw.core.parking import BackoffPolicy, for_revision
from llmgw.core.patience import waits
from llmgw.core.plan_lint import lint
from llmgw.core.replica_fsm import advance
from llmgw.core.snapshot import Snapshot
from llmgw.ports import AppendEvent, DeleteReplica, FleetRows, PutNode, PutReplica, PutStatus, Write
from llmgw.schema.desired import DesiredShard, DesiredState, Mode
from llmgw.schema.event import Event, Severity
from llmgw.schema.lease import Fence
from llmgw.schema.model import ModelStatus
from llmgw.schema.node import Node, Reachability
from llmgw.schema.plan import Plan
from llmgw.schema.replica import Replica
from llmgw.schema.report import ShardReport
from llmgw.schema.value import Value
from llmgw.server.execute import Names, carry_out
from llmgw.server.fold import fold
from llmgw.server.live import Live
from llmgw.server.observe import Observer
from llmgw.server.recall import Recall
from llmgw.server.registration import Silence, registrations

Planner = Callable[[Snapshot], Plan]
"""A port: in this process now, in a worker process once fleets need it."""


class Heard(Value, frozen=True, kw_only=True):
    """What was heard when the turn began, and the two clocks, read once."""

    live: tuple[Live, ...]
    now: datetime
    hearing: float
    """Hearing time: it stands still while this process could not have heard anybody."""
    wanted: dict[str, int] = {}  # noqa: RUF012 (msgspec copies empty mutable defaults)
    """Replicas demand asks for, by model."""
    answering: frozenset[str] = frozenset()
    """Ids of replicas that answered requests lately, as gateways say."""
    probed: frozenset[str] = frozenset()
    """Ids of replicas whose first shard's engine answered a gateway's own question lately."""


class Rules(Value, frozen=True, kw_only=True):
    """What does not change from turn to turn while one process leads."""

    planner: Planner
    policy: BackoffPolicy
    silence: Silence
    names: Names


class DesiredSet(Value, frozen=True, kw_only=True):
    """What one node should run, under the generation that counts it."""

    node: str
    generation: int
    shards: tuple[DesiredShard, ...]
    digest: str
    """Of its content."""
    watch_paths: tuple[str, ...]

    def order(self, fence: Fence, mode: Mode) -> DesiredState:
        """Give it as an order of the leader with `fence`."""
        return DesiredState(
            epoch=fence.epoch,
            holder=fence.holder,
            generation=self.generation,
            mode=mode,
            shards=self.shards,
            watch_paths=self.watch_paths,
        )


class Turn(Value, frozen=True, kw_only=True):
    """What a turn decided."""

    writes: tuple[Write, ...]
    sets: tuple[DesiredSet, ...]
    """One per node; to be ordered once the writes took place, not before."""
    violations: tuple[str, ...]
    """Why the plan was refused; then nothing of it is among the writes."""


def decide(rows: FleetRows, heard: Heard, rules: Rules, observer: Observer, recall: Recall | None = None) -> Turn:
    """Decide one turn: nodes, replicas, plan, and the generation of each node's desired set.

    `recall` may be kept from turn to turn: it saves time and changes nothing.
    """
    recall = recall or Recall()
    writes: list[Write] = list(
        registrations(
            rows.nodes,
            heard.live,
            silence=rules.silence,
            now=heard.now,
            hearing=heard.hearing,
            answering=_serving(rows.replicas, heard),
            waits=waits(rows.nodes, rows.models, rows.replicas, default_s=rules.silence.lost_after_s),
        )
    )
    rows = fold(rows, writes)
    advanced = _advance_all(rows, heard, rules.policy, recall)
    writes.extend(advanced)
    rows = fold(rows, advanced)

    reports = {live.node: live.reports for live in heard.live}
    snapshot = observer.snapshot(rows, reports=reports, now=heard.now, wanted=heard.wanted)
    plan = rules.planner(snapshot)
    violations = lint(snapshot, plan)
    if not violations:
        carried_out = carry_out(plan, snapshot, rules.names)
        writes.extend(carried_out)
        rows = fold(rows, carried_out)

    emptied = _drained(rows, heard.now)
    writes.extend(emptied)
    rows = fold(rows, emptied)

    sets = desired_sets(rows, snapshot, heard.live, recall)
    writes.extend(_counted(rows, sets))
    return Turn(writes=tuple(writes), sets=sets, violations=violations)


def desired_sets(rows: FleetRows, snapshot: Snapshot, live: tuple[Live, ...], recall: Recall) -> tuple[DesiredSet, ...]:
    """Give the desired set of each node in `rows`, with a generation of its own where it differs from the last one."""
    watched = watch_paths(rows.models)
    found = recall.node_sets(rows, {model.model.name: model.model for model in snapshot.models}, watched)
    obeyed = {one.node: one.generation for one in live}
    sets = []
    for node in rows.nodes:
        wanted, beyond, generation = found[node.id], obeyed.get(node.id, 0), node.generation
        # An agent may have obeyed more than the store remembers (a lost store): it would refuse what we count.
        if beyond > generation or wanted.digest != node.desired_digest:
            generation = max(generation, beyond) + 1
        one = DesiredSet(
            node=node.id, generation=generation, shards=wanted.shards, digest=wanted.digest, watch_paths=watched
        )
        sets.append(one)
    return tuple(sets)


def _advance_all(rows: FleetRows, heard: Heard, policy: BackoffPolicy, recall: Recall) -> list[Write]:
    models = {model.name: model for model in rows.models}
    before = {status.model: status for status in rows.statuses}
    statuses = {
        name: for_revision(before.get(name) or ModelStatus(model=name, revision=model.revision), model.revision)
        for name, model in models.items()
    }
    reports: dict[str, ShardReport] = {report.id: report for live in heard.live for report in live.reports}
    obedient = _obedient(rows.nodes, heard.live)
    gone = _gone(rows)
    writes: list[Write] = []
    for replica in rows.replicas:
        model = models.get(replica.model)
        status = statuses.get(replica.model) or ModelStatus(model=replica.model, revision=replica.revision)
        basis = (replica, model, status, *[reports.get(shard.id) for shard in replica.shards])
        if recall.rests(replica, basis):
            continue
        step = advance(
            replica,
            model=model,
            status=status,
            reports=reports,
            heard=obedient,
            policy=policy,
            now=heard.now,
            gone=gone,
        )
        if replica.model in statuses:
            statuses[replica.model] = step.status
        if step.replica is None:
            writes.append(DeleteReplica(id=replica.id))
        elif step.replica != replica:
            writes.append(PutReplica(replica=step.replica))
        elif step.status is status:
            recall.note_rest(replica, basis)
        writes.extend(AppendEvent(event=event) for event in step.events)
    recall.forget(rows)
    writes.extend(PutStatus(status=status) for name, status in statuses.items() if status != before.get(name))
    return writes


def _drained(rows: FleetRows, now: datetime) -> list[Write]:
    """Give the writes for nodes whose drain is over."""
    writes: list[Write] = []
    for node in drained(rows.nodes, rows.replicas):
        message = f"node {node.id} is drained: nothing runs on it, and nothing is placed on it until it is uncordoned"
        event = Event(at=now, kind="node.drained", severity=Severity.INFO, message=message, node=node.id)
        writes.extend((PutNode(node=node), AppendEvent(event=event)))
    return writes


def _serving(replicas: tuple[Replica, ...], heard: Heard) -> frozenset[str]:
    """Name the nodes that serve.

    A replica answers requests only while all its shards do; whether its engine is there the first one says alone.
    """
    return frozenset(
        shard.allocation.node
        for replica in replicas
        for shard in replica.shards
        if replica.id in heard.answering or (shard.rank == 0 and replica.id in heard.probed)
    )


def _obedient(nodes: tuple[Node, ...], live: tuple[Live, ...]) -> frozenset[str]:
    """Name the nodes whose silence about a shard means that it is gone.

    Only those that are connected and said so after they obeyed the set as it is stored: an agent that has not yet
    read the order to start a shard reports it just as little as one that has ended it.
    """
    generations = {node.id: node.generation for node in nodes}
    return frozenset(one.node for one in live if one.connected and one.generation >= generations.get(one.node, 0))


def _gone(rows: FleetRows) -> frozenset[str]:
    """Name the nodes that hold replicas and are lost or removed: nothing more will be heard of what ran there."""
    there = {node.id for node in rows.nodes if node.reachability is not Reachability.LOST}
    return frozenset(
        shard.allocation.node
        for replica in rows.replicas
        for shard in replica.shards
        if shard.allocation.node not in there
    )


def _counted(rows: FleetRows, sets: tuple[DesiredSet, ...]) -> list[Write]:
    """Give the writes that keep new generations, so that no later leader counts one twice."""
    return [
        PutNode(node=replace(node, generation=found.generation, desired_digest=found.digest))
        for node, found in zip(rows.nodes, sets, strict=True)
        if found.generation != node.generation
    ]
