"""Why a model is as it is, constraint by constraint, and the smallest changes that would make it fit.

No change is told that was not tried: each is made on a copy of the fleet, and the planner then has to place one more
replica than it does now.
"""

from collections import Counter
from collections.abc import Iterator

from llmgw.core.amounts import cores_text, counted, memory_text
from llmgw.core.demand import desired_replicas
from llmgw.core.feasible import Rooms
from llmgw.core.fit import Need, Refusal, need_of
from llmgw.core.gaps import Gap, gaps
from llmgw.core.offer import MILLI
from llmgw.core.patience import waiting, waiting_text
from llmgw.core.plan_text import told_of
from llmgw.core.refusals import refused
from llmgw.core.remedies import remedies
from llmgw.core.snapshot import ModelSnapshot, Snapshot
from llmgw.core.wants import parked
from llmgw.core.what_if import Planner, placed
from llmgw.schema.admin.explain import Change, CloseNode, Explanation, Sieve
from llmgw.schema.plan import Constraint, Plan, RefusalCount, Shortfall
from llmgw.schema.replica import Replica, ReplicaState

CLOSEST = 3
CHANGES = 3
TRIES = 20
"""Changes that are tried at most: each costs a few plans."""
_FITS = told_of(Constraint.FABRIC, "fits")


def explain(snapshot: Snapshot, model: ModelSnapshot, planner: Planner) -> Explanation:
    """Explain one model of the snapshot."""
    need, plan = need_of(model), planner(snapshot)
    rooms = Rooms(snapshot.nodes, snapshot.replicas)
    counts = refused(rooms, need).counts
    short = next((one for one in plan.shortfalls if one.model == model.model.name), None)
    found = gaps(rooms, need) if short is not None else []
    replicas = [replica for replica in snapshot.replicas if replica.model == model.model.name]
    waits = [replica for replica in waiting(snapshot) if replica.model == model.model.name]
    return Explanation(
        model=model.model.name,
        verdict=_verdict(model, replicas, plan, short, waits),
        desired=desired_replicas(model.model, model.wanted),
        ready=sum(replica.state is ReplicaState.READY for replica in replicas) - len(waits),
        missing=0 if short is None else short.missing,
        nodes=len(snapshot.nodes),
        fitting=sum(count.nodes for count in counts if count.text == _FITS),
        sieves=tuple(_sieves(need, counts, len(snapshot.nodes))),
        closest=tuple(_close(gap, rooms) for gap in found[:CLOSEST]),
        changes=tuple(_changes(snapshot, model, need, found, planner)) if short is not None else (),
    )


def _changes(
    snapshot: Snapshot, model: ModelSnapshot, need: Need, found: list[Gap], planner: Planner
) -> Iterator[Change]:
    name, told = model.model.name, 0
    now = placed(snapshot, name, planner)
    for remedy in remedies(snapshot, model, need, found)[:TRIES]:
        if placed(remedy.edit(snapshot), name, planner) <= now:
            continue
        yield Change(kind=remedy.kind, text=remedy.text, commands=remedy.commands)
        told += 1
        if told == CHANGES:
            return


def _close(gap: Gap, rooms: Rooms) -> CloseNode:
    return CloseNode(node=gap.node, lacks=tuple(_lack(gap, refusal, rooms) for refusal in gap.lacks))


def _lack(gap: Gap, refusal: Refusal, rooms: Rooms) -> str:
    if refusal.constraint is Constraint.NOT_READY:
        return f"is {refusal.detail}"
    return rooms.detail(gap.node, refusal)


# The sieve ----------------------------------------------------------------------------------------


def _sieves(need: Need, counts: tuple[RefusalCount, ...], total: int) -> Iterator[Sieve]:
    out: Counter[Constraint] = Counter()
    reasons: dict[Constraint, list[str]] = {}
    for count in counts:
        if count.text != _FITS:
            out[count.constraint] += count.nodes
            reasons.setdefault(count.constraint, []).append(f"{count.nodes} {count.text}")
    left = total
    for constraint in Constraint:
        needs = _needs(need, constraint)
        if needs is None and not out[constraint]:
            continue
        left -= out[constraint]
        why = f", {out[constraint]} out ({', '.join(reasons[constraint])})" if out[constraint] else ""
        needs = needs or str(constraint)
        sentence = f"needs {needs}: {counted(left, 'node')} left{why}"
        yield Sieve(constraint=constraint, needs=needs, out=out[constraint], left=left, sentence=sentence)


def _needs(need: Need, constraint: Constraint) -> str | None:
    match constraint:
        case Constraint.NOT_READY:
            return "a node that is ready and was heard"
        case Constraint.SELECTOR:
            labels = ", ".join(f"{name}={value}" for name, value in sorted(need.selector))
            return f"the labels {labels}" if labels else None
        case Constraint.ENGINE:
            return "engine " + " ".join(part for part in (need.engine, need.engine_version, need.variant) if part)
        case Constraint.WEIGHTS:
            return None if need.path is None else f"the weights {need.path}"
        case Constraint.DEVICE_CLASS:
            return _devices(need) if need.devices else None
        case Constraint.FABRIC:
            return _fabric(need)
        case Constraint.DEVICES_BUSY:
            return f"{_devices(need)} free and healthy" if need.devices else None
        case Constraint.CORES:
            return f"{cores_text(need.milli_cores / MILLI)} cores free" if need.milli_cores else None
        case Constraint.MEMORY:
            return f"{memory_text(need.memory_bytes)} of memory free" if need.memory_bytes else None


def _devices(need: Need) -> str:
    return (
        f"{need.devices} {need.device_class}"
        if need.device_class
        else f"{counted(need.devices, 'device')} of one class"
    )


def _fabric(need: Need) -> str | None:
    if need.nodes > 1:
        return f"{need.nodes} such nodes in {f'fabric {need.fabric}' if need.fabric else 'one fabric'}"
    return None if need.fabric is None else f"fabric {need.fabric}"


# The verdict --------------------------------------------------------------------------------------


def _verdict(
    model: ModelSnapshot, replicas: list[Replica], plan: Plan, short: Shortfall | None, waits: list[Replica]
) -> str:
    name, desired = model.model.name, desired_replicas(model.model, model.wanted)
    count = Counter(replica.state for replica in replicas)
    ready = count[ReplicaState.READY] - len(waits)
    if (why := parked(model)) is not None:
        return f"{name} is parked after {counted(why.failures, 'failed start')}: {why.reason}"
    head = f"{name} has {ready} of {counted(desired, 'replica')} ready"
    if short is not None:
        return f"{head}; {counted(short.missing, 'replica')} more {_fit(short.missing)} nowhere: {short.sentence}"
    if desired == 0:
        return f"no replica of {name} is wanted now: its minimum is 0 and nobody asks for it"
    if ready >= desired:
        return head
    if waits:
        return f"{head}; " + "; ".join(waiting_text(model.model, replica) for replica in waits)
    if any(placement.model == name for placement in plan.placements):
        return f"{head}; more are being placed"
    if count[ReplicaState.STARTING]:
        return f"{head}; {count[ReplicaState.STARTING]} starting"
    if count[ReplicaState.FAILED]:
        cause = model.status.last_failure or "no cause is known"
        when = f"; the next try is at {model.status.retry_at:%H:%M:%S} UTC" if model.status.retry_at else ""
        return f"{head}; the last start failed: {cause}{when}"
    return f"{head}; it waits for room that is on its way, or for nodes that have yet to look or report"


def _fit(count: int) -> str:
    return "fits" if count == 1 else "fit"
