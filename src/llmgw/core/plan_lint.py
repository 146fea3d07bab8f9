"""Checks a plan against its snapshot before it is carried out, by rules of its own and not by the planner's code.

claims      no device, nor memory that devices share, is held twice, no device unhealthy; cores and memory of a node are
            never exceeded by a placement
nodes       shards go only to nodes that are ready and heard, one shard a node
whole       as many shards as the profile says, equal devices of one class, one fabric
weights     no node that looked for the weights and lacks them
models      only models that exist, in their present revision, not parked, never more than max
removals    only replicas that exist and are not ending, each once, with a reason
refusals    each shortfall tells one reason per node
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import fsum

from llmgw.core.snapshot import ModelSnapshot, NodeSnapshot, Snapshot
from llmgw.schema.device import Device
from llmgw.schema.node import NodeState
from llmgw.schema.plan import Allocation, Placement, Plan
from llmgw.schema.replica import ReplicaState

_ROUNDING = 0.01
"""Cores: each claim is rounded to a thousandth."""
_MOVING = frozenset({NodeState.LOST, NodeState.DRAINING, None})
"""States of nodes whose replicas are replaced elsewhere; `None` is a node that was removed."""


def lint(snapshot: Snapshot, plan: Plan) -> tuple[str, ...]:
    """Give one line per broken rule, `rule: what`; nothing for a sound plan."""
    nodes = {seen.node.id: seen for seen in snapshot.nodes}
    models = {seen.model.name: seen for seen in snapshot.models}
    return (
        *_claims(snapshot, plan, nodes),
        *(problem for placement in plan.placements for problem in _placed(placement, models, nodes)),
        *_counts(snapshot, plan, models),
        *_removals(snapshot, plan),
        *_refusals(plan, nodes, models),
    )


def _claims(snapshot: Snapshot, plan: Plan, nodes: Mapping[str, NodeSnapshot]) -> Iterator[str]:
    new: dict[str, list[Allocation]] = {}
    for placement in plan.placements:
        for allocation in placement.allocations:
            new.setdefault(allocation.node, []).append(allocation)
    held: dict[str, list[Allocation]] = {}
    for replica in snapshot.replicas if new else ():
        for shard in replica.shards:
            if shard.allocation.node in new:
                held.setdefault(shard.allocation.node, []).append(shard.allocation)
    for node, allocations in sorted(new.items()):
        if node in nodes:
            yield from _node_claims(nodes[node], held.get(node, []), allocations)


def _node_claims(seen: NodeSnapshot, held: list[Allocation], new: list[Allocation]) -> Iterator[str]:
    node, facts = seen.node.id, seen.node.facts
    healthy = {device.id for device in facts.devices if device.problem is None}
    taken = Counter(device for allocation in held + new for device in allocation.devices)
    for device in sorted({device for allocation in new for device in allocation.devices}):
        if device not in healthy:
            yield f"claims: {node} has no healthy device {device}"
        if taken[device] > 1:
            yield f"claims: device {device} of {node} is held {taken[device]} times"
    pools = {device.id: device.pool for device in facts.devices if device.pool is not None}
    sold = Counter(pools[device] for device in taken if device in pools)
    for pool in sorted({pools[d] for allocation in new for d in allocation.devices if d in pools}):
        if sold[pool] > 1:
            yield f"claims: memory {pool} of {node} is held through {sold[pool]} devices"
    cores, memory = facts.host.cores_usable, facts.memory_bytes
    wanted_cores = fsum(a.cores or 0.0 for a in held + new)
    if cores is not None and any(a.cores for a in new) and wanted_cores > cores + _ROUNDING:
        yield f"claims: {wanted_cores:g} of {cores:g} cores of {node}"
    wanted_memory = sum(a.memory_bytes or 0 for a in held + new)
    if memory is not None and any(a.memory_bytes for a in new) and wanted_memory > memory:
        yield f"claims: {wanted_memory} of {memory} bytes of memory of {node}"


def _placed(
    placement: Placement, models: Mapping[str, ModelSnapshot], nodes: Mapping[str, NodeSnapshot]
) -> Iterator[str]:
    seen = models.get(placement.model)
    if seen is None:
        yield f"models: {placement.model} does not exist"
        return
    if placement.revision != seen.model.revision:
        yield f"models: {placement.model} is at revision {seen.model.revision}, not {placement.revision}"
    if seen.status.parked is not None and seen.status.revision == seen.model.revision:
        yield f"models: {placement.model} is parked"
    names = [allocation.node for allocation in placement.allocations]
    if len(set(names)) != len(names):
        yield f"nodes: {placement.model} has two shards on one node"
    for name in names:
        yield from _node(placement.model, name, nodes.get(name), seen.model.source)
    if all(name in nodes for name in names):
        yield from _whole(placement, seen, [nodes[name] for name in names])


def _node(model: str, name: str, seen: NodeSnapshot | None, source: str) -> Iterator[str]:
    if seen is None:
        yield f"nodes: {name} does not exist"
        return
    if seen.state is not NodeState.READY:
        yield f"nodes: {name} is {seen.state}"
    if seen.reports is None:
        yield f"nodes: {name} was not heard yet"
    if seen.settling:
        yield f"nodes: {name} is settling after a silence"
    facts = seen.node.facts
    known = {w.path for w in facts.weights or ()} | {w.path for w in facts.watched if w.present}
    looked = facts.weights is not None or any(w.path == source for w in facts.watched)
    if source.startswith("/") and looked and source not in known:
        yield f"weights: {name} lacks {source} of {model}"


def _whole(placement: Placement, seen: ModelSnapshot, nodes: list[NodeSnapshot]) -> Iterator[str]:
    profile, claim = seen.model.profile, seen.claim
    if len(nodes) != profile.nodes:
        yield f"whole: {placement.model} has {len(nodes)} shards, not {profile.nodes}"
    devices = [_devices(a, node) for a, node in zip(placement.allocations, nodes, strict=True)]
    if claim.device_class != "cpu" and any(len(found) != claim.devices for found in devices):
        yield f"whole: {placement.model} has not {claim.devices} devices on each node"
    classes = {device.device_class for found in devices for device in found}
    if len(classes) > 1 or (claim.device_class is not None and classes - {claim.device_class}):
        yield f"whole: {placement.model} is on devices of class {', '.join(sorted(classes))}"
    shared = frozenset.intersection(*(frozenset(f.name for f in node.node.facts.fabrics) for node in nodes))
    wanted = {allocation.fabric for allocation in placement.allocations}
    if profile.nodes > 1 and (len(wanted) != 1 or not wanted <= shared):
        yield f"whole: the shards of {placement.model} share no fabric"
    if profile.fabric is not None and wanted != {profile.fabric}:
        yield f"whole: {placement.model} is not in fabric {profile.fabric}"


def _devices(allocation: Allocation, node: NodeSnapshot) -> tuple[Device, ...]:
    return tuple(device for device in node.node.facts.devices if device.id in allocation.devices)


def _counts(snapshot: Snapshot, plan: Plan, models: Mapping[str, ModelSnapshot]) -> Iterator[str]:
    count = Counter(placement.model for placement in plan.placements)
    if not count:
        return
    placed = set(count)
    leaving = {removal.replica for removal in plan.removals}
    states = {seen.node.id: seen.state for seen in snapshot.nodes}
    for replica in snapshot.replicas:
        if replica.model not in placed:
            continue
        seen = models.get(replica.model)
        moving = {states.get(shard.allocation.node) for shard in replica.shards} & _MOVING
        stays = replica.id not in leaving and replica.state is not ReplicaState.DRAINING and not moving
        if seen is not None and stays and replica.revision == seen.model.revision:
            count[replica.model] += 1
    for model in sorted(placed & models.keys()):
        if count[model] > models[model].model.max:
            yield f"models: {model} would have {count[model]} replicas, more than {models[model].model.max}"


def _removals(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    known = {replica.id: replica for replica in snapshot.replicas} if plan.removals else {}
    for name, times in Counter(removal.replica for removal in plan.removals).items():
        if name not in known:
            yield f"removals: there is no replica {name}"
        elif known[name].state is ReplicaState.DRAINING:
            yield f"removals: replica {name} ends already"
        if times > 1:
            yield f"removals: replica {name} is removed {times} times"
    yield from (f"removals: no reason for {removal.replica}" for removal in plan.removals if not removal.reason)


def _refusals(plan: Plan, nodes: Mapping[str, NodeSnapshot], models: Mapping[str, ModelSnapshot]) -> Iterator[str]:
    for shortfall in plan.shortfalls:
        if shortfall.model not in models:
            yield f"refusals: {shortfall.model} does not exist"
        told = Counter(rejection.node for rejection in shortfall.rejections)
        if shortfall.counts:
            whole = sum(count.nodes for count in shortfall.counts) == len(nodes)
            whole = whole and told.keys() <= nodes.keys() and told.total() == len(told)
        else:
            whole = told == Counter(nodes.keys())
        if not whole:
            yield f"refusals: {shortfall.model} does not tell one reason for each node"
