"""The whole fleet in one answer, by spec section 10, from the same snapshot as the tables."""

from collections import Counter
from collections.abc import Iterable

from llmgw.core.alarms import alarms
from llmgw.core.demand import desired_replicas
from llmgw.core.inventory import owned, schedulable
from llmgw.core.parking import for_revision
from llmgw.core.patience import waiting
from llmgw.core.snapshot import ModelSnapshot, NodeSnapshot, Snapshot
from llmgw.core.wants import is_absent
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

IDLE_S = 600.0
"""Seconds without a request after which a replica is named: spec, section 10."""
_NOBODY: frozenset[str] = frozenset()


def summarize(snapshot: Snapshot, *, version: str, leader: str | None, epoch: int | None) -> Summary:
    """Sum the fleet up. `version` is the release the answering control plane runs."""
    gpus, wholly_free = _count_devices(snapshot.nodes, _held(snapshot.replicas))
    lost = {seen.node.id: seen.state for seen in snapshot.nodes if seen.state is NodeState.LOST}
    there = [replica for replica in snapshot.replicas if not lost or not is_absent(replica, lost)]
    ready = Counter(replica.model for replica in there if replica.state is ReplicaState.READY)
    total = Counter(replica.model for replica in there)
    total.update(replica.model for replica in waiting(snapshot))
    models = sorted(snapshot.models, key=lambda seen: seen.model.name)
    short = [seen for seen in models if not _is_satisfied(seen, ready[seen.model.name])]
    return Summary(
        version=version,
        leader=leader,
        epoch=epoch,
        nodes=_count_nodes(snapshot.nodes),
        gpus=gpus,
        fabrics=_count_fabrics(snapshot.nodes, wholly_free),
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
    """Name ready replicas that nobody asked for long enough, and were ready all the while; the longest first."""
    found = []
    for replica in snapshot.replicas:
        unasked_s = snapshot.idle_s.get(replica.id)
        if replica.state is not ReplicaState.READY or unasked_s is None:
            continue
        ready_s = (snapshot.now - (replica.ready_at or replica.state_since)).total_seconds()
        idle_s = min(unasked_s, ready_s)
        if idle_s >= IDLE_S:
            devices = sum(len(shard.allocation.devices) for shard in replica.shards)
            found.append(IdleReplica(id=replica.id, model=replica.model, idle_seconds=int(idle_s), gpus=devices))
    return sorted(found, key=lambda one: (-one.idle_seconds, one.id))


def _count_nodes(nodes: tuple[NodeSnapshot, ...]) -> NodeCounts:
    states = Counter(seen.state for seen in nodes)
    return NodeCounts(
        total=len(nodes),
        ready=states[NodeState.READY],
        cordoned=states[NodeState.CORDONED],
        draining=states[NodeState.DRAINING],
        unreachable=states[NodeState.UNREACHABLE] + states[NodeState.LOST],
    )


def _held(replicas: tuple[Replica, ...]) -> dict[str, set[str]]:
    """Give the devices that are held, by node."""
    held: dict[str, set[str]] = {}
    for replica in replicas:
        for shard in replica.shards:
            if shard.allocation.devices:
                held.setdefault(shard.allocation.node, set()).update(shard.allocation.devices)
    return held


class _Count:
    """Devices of one class."""

    __slots__ = ("total", "unhealthy", "used")

    def __init__(self) -> None:
        self.total = self.used = self.unhealthy = 0


def _count_devices(
    nodes: tuple[NodeSnapshot, ...], held: dict[str, set[str]]
) -> tuple[tuple[ClassCounts, ...], set[str]]:
    """Count devices by class, and name the ready nodes all of whose devices are healthy and held by nobody."""
    counts: dict[str, _Count] = {}
    wholly_free: set[str] = set()
    for seen in nodes:
        facts, node = seen.node.facts, seen.node.id
        taken = owned(facts.devices, held[node]) if node in held else _NOBODY
        is_free = seen.state is NodeState.READY
        for device in schedulable(facts.devices):
            count = counts.get(device.device_class)
            if count is None:
                count = counts[device.device_class] = _Count()
            count.total += 1
            if device.problem is not None:
                count.unhealthy += 1
                is_free = False
            elif device.id in taken:
                count.used += 1
                is_free = False
        if is_free and facts.devices:
            wholly_free.add(node)
        for name in facts.device_classes:
            counts.setdefault(name, _Count())
    classes = (
        ClassCounts(device_class=name, total=count.total, used=count.used, unhealthy=count.unhealthy)
        for name, count in sorted(counts.items())
    )
    return tuple(classes), wholly_free


def _count_fabrics(nodes: tuple[NodeSnapshot, ...], wholly_free: set[str]) -> tuple[FabricCounts, ...]:
    members: dict[str, list[NodeSnapshot]] = {}
    for seen in nodes:
        for name in {fabric.name for fabric in seen.node.facts.fabrics}:
            members.setdefault(name, []).append(seen)
    return tuple(_count_fabric(name, found, wholly_free) for name, found in sorted(members.items()))


def _count_fabric(name: str, members: list[NodeSnapshot], wholly_free: set[str]) -> FabricCounts:
    digests: set[str] = set()
    told: set[str] = set()
    silent: set[str] = set()
    with_weights = 0
    for seen in members:
        # Half downloads and other broken ones are no weights to anybody.
        whole = [one for one in seen.node.facts.weights or () if one.problem is None]
        with_weights += bool(whole)
        for one in whole:
            if one.digest is None:
                silent.add(one.path)
            else:
                digests.add(one.digest)
                told.add(one.path)
    return FabricCounts(
        fabric=name,
        nodes=len(members),
        nodes_with_weights=with_weights,
        # Copies count once: by digest, and by path where a node has not made the digest yet.
        models_present=len(digests) + len(silent - told),
        largest_free_block=sum(seen.node.id in wholly_free for seen in members),
    )


def _count_replicas(replicas: tuple[Replica, ...]) -> ReplicaCounts:
    states = Counter(replica.state for replica in replicas)
    known = states[ReplicaState.READY] + states[ReplicaState.DRAINING] + states[ReplicaState.FAILED]
    return ReplicaCounts(
        ready=states[ReplicaState.READY],
        starting=len(replicas) - known,
        draining=states[ReplicaState.DRAINING],
        failed=states[ReplicaState.FAILED],
    )
