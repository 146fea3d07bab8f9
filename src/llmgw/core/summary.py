"""The whole fleet in one answer, by spec section 10, from the same snapshot as the tables."""

from collections import Counter
from collections.abc import Iterable

from llmgw.core.alarms import alarms
from llmgw.core.demand import desired_replicas
from llmgw.core.inventory import NOTHING, Held, held_by_node
from llmgw.core.parking import for_revision
from llmgw.core.snapshot import ModelSnapshot, NodeSnapshot, Snapshot
from llmgw.core.wants import is_absent
from llmgw.schema.device import Device
from llmgw.schema.model import ModelStatus
from llmgw.schema.node import NodeState
from llmgw.schema.replica import Replica, ReplicaState
from llmgw.schema.summary import (
    ClassCounts,
    FabricCounts,
    IdleReplica,
    ModelCounts,
    NodeCounts,
    ParkedModel,
    ReplicaCounts,
    Summary,
)
from llmgw.schema.weights import Weights

IDLE_S = 600.0
"""Seconds without a request after which a replica is named: spec, section 10."""


def summarize(snapshot: Snapshot, *, version: str, leader: str | None, epoch: int | None) -> Summary:
    """Sum the fleet up. `version` is the release the answering control plane runs."""
    taken = held_by_node(snapshot.replicas)
    states = {seen.node.id: seen.state for seen in snapshot.nodes}
    there = [replica for replica in snapshot.replicas if not is_absent(replica, states)]
    ready = Counter(replica.model for replica in there if replica.state is ReplicaState.READY)
    total = Counter(replica.model for replica in there)
    models = sorted(snapshot.models, key=lambda seen: seen.model.name)
    short = [seen for seen in models if not _is_satisfied(seen, ready[seen.model.name])]
    return Summary(
        version=version,
        leader=leader,
        epoch=epoch,
        nodes=_count_nodes(snapshot.nodes),
        gpus=_count_classes(snapshot.nodes, taken),
        fabrics=_count_fabrics(snapshot.nodes, taken),
        replicas=_count_replicas(snapshot.replicas),
        models=ModelCounts(total=len(models), satisfied=len(models) - len(short), short=len(short)),
        unplaceable=tuple(
            seen.model.name for seen in short if _is_unplaceable(seen, total[seen.model.name], ready[seen.model.name])
        ),
        parked=tuple(_parked(models)),
        idle_replicas=tuple(_idle(snapshot)),
        alarms=alarms(snapshot),
    )


def _status(seen: ModelSnapshot) -> ModelStatus:
    return for_revision(seen.status, seen.model.revision)


def _is_satisfied(seen: ModelSnapshot, ready: int) -> bool:
    return ready >= desired_replicas(seen.model, seen.wanted) and _status(seen).parked is None


def _is_unplaceable(seen: ModelSnapshot, total: int, ready: int) -> bool:
    """Flagged so, or short with nothing under way that could mend it."""
    status = _status(seen)
    return status.unplaceable is not None or (status.parked is None and total <= ready)


def _parked(models: Iterable[ModelSnapshot]) -> Iterable[ParkedModel]:
    for seen in models:
        parked = _status(seen).parked
        if parked is not None:
            yield ParkedModel(model=seen.model.name, failures=parked.failures, reason=parked.reason)


def _idle(snapshot: Snapshot) -> Iterable[IdleReplica]:
    """Name ready replicas that nobody asked for long enough, and were ready all the while."""
    for replica in sorted(snapshot.replicas, key=lambda replica: replica.id):
        unasked_s = snapshot.idle_s.get(replica.id)
        if replica.state is not ReplicaState.READY or unasked_s is None:
            continue
        ready_s = (snapshot.now - (replica.ready_at or replica.state_since)).total_seconds()
        idle_s = min(unasked_s, ready_s)
        if idle_s >= IDLE_S:
            devices = sum(len(shard.allocation.devices) for shard in replica.shards)
            yield IdleReplica(id=replica.id, model=replica.model, idle_seconds=int(idle_s), gpus=devices)


def _count_nodes(nodes: tuple[NodeSnapshot, ...]) -> NodeCounts:
    states = Counter(seen.state for seen in nodes)
    return NodeCounts(
        total=len(nodes),
        ready=states[NodeState.READY],
        cordoned=states[NodeState.CORDONED],
        draining=states[NodeState.DRAINING],
        unreachable=states[NodeState.UNREACHABLE] + states[NodeState.LOST],
    )


def _count_classes(nodes: tuple[NodeSnapshot, ...], taken: dict[str, Held]) -> tuple[ClassCounts, ...]:
    total: Counter[str] = Counter()
    used: Counter[str] = Counter()
    unhealthy: Counter[str] = Counter()
    for seen in nodes:
        held = taken.get(seen.node.id, NOTHING)
        for device in seen.node.facts.devices:
            total[device.device_class] += 1
            unhealthy[device.device_class] += device.problem is not None
            used[device.device_class] += device.problem is None and device.id in held.devices
    return tuple(
        ClassCounts(device_class=name, total=total[name], used=used[name], unhealthy=unhealthy[name])
        for name in sorted(total)
    )


def _count_fabrics(nodes: tuple[NodeSnapshot, ...], taken: dict[str, Held]) -> tuple[FabricCounts, ...]:
    members: dict[str, list[NodeSnapshot]] = {}
    for seen in nodes:
        for name in {fabric.name for fabric in seen.node.facts.fabrics}:
            members.setdefault(name, []).append(seen)
    return tuple(_count_fabric(name, found, taken) for name, found in sorted(members.items()))


def _count_fabric(name: str, members: list[NodeSnapshot], taken: dict[str, Held]) -> FabricCounts:
    distinct = {_identity(weights) for seen in members for weights in seen.node.facts.weights or ()}
    return FabricCounts(
        fabric=name,
        nodes=len(members),
        nodes_with_weights=sum(bool(seen.node.facts.weights) for seen in members),
        models_present=len(distinct),
        largest_free_block=sum(_is_wholly_free(seen, taken) for seen in members),
    )


def _identity(weights: Weights) -> str:
    """Copies count once: by digest where it is known, else by path."""
    return weights.digest or weights.path


def _is_wholly_free(seen: NodeSnapshot, taken: dict[str, Held]) -> bool:
    """A ready node, all of whose devices are healthy and unheld, can be part of the largest block."""
    devices, held = seen.node.facts.devices, taken.get(seen.node.id, NOTHING).devices
    return seen.state is NodeState.READY and bool(devices) and all(_is_free(device, held) for device in devices)


def _is_free(device: Device, held: frozenset[str]) -> bool:
    return device.problem is None and device.id not in held


def _count_replicas(replicas: tuple[Replica, ...]) -> ReplicaCounts:
    states = Counter(replica.state for replica in replicas)
    known = states[ReplicaState.READY] + states[ReplicaState.DRAINING] + states[ReplicaState.FAILED]
    return ReplicaCounts(
        ready=states[ReplicaState.READY],
        starting=len(replicas) - known,
        draining=states[ReplicaState.DRAINING],
        failed=states[ReplicaState.FAILED],
    )
