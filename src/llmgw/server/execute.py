"""Carrying out a plan: what it means for the stored rows. Pure, apart from the ids it is given."""

from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec.structs import replace

from llmgw.core.snapshot import Snapshot
from llmgw.ports import AppendEvent, PutReplica, PutStatus, Write
from llmgw.schema.event import Event, Severity
from llmgw.schema.model import ModelStatus
from llmgw.schema.plan import Placement, Plan, Removal, Shortfall
from llmgw.schema.replica import Replica, ReplicaState, Shard
from llmgw.schema.value import Value


class Names(Value, frozen=True, kw_only=True):
    """Where new ids and engine keys come from: the only chance in a turn."""

    replica: Callable[[], str]
    engine_key: Callable[[], str]


def carry_out(plan: Plan, snapshot: Snapshot, names: Names) -> tuple[Write, ...]:
    """Give the writes that `plan` means for the fleet in `snapshot`; none where the rows say it already."""
    writes: list[Write] = []
    replicas = {replica.id: replica for replica in snapshot.replicas} if plan.removals else {}
    for removal in plan.removals:
        writes.extend(_remove(removal, replicas.get(removal.replica), snapshot.now))
    for placement in plan.placements:
        writes.extend(_place(placement, names, snapshot.now))
    writes.extend(_tell_shortfalls(plan, snapshot))
    return tuple(writes)


def _remove(removal: Removal, replica: Replica | None, now: datetime) -> Iterator[Write]:
    if replica is None or replica.state is ReplicaState.DRAINING:
        return
    draining = replace(replica, state=ReplicaState.DRAINING, state_since=now, ready_at=None, reason=removal.reason)
    yield PutReplica(replica=draining)
    message = f"replica {replica.id} of {replica.model} is stopped: {removal.reason}"
    yield _event(now, "replica.draining", Severity.INFO, message, model=replica.model, replica=replica.id)


def _place(placement: Placement, names: Names, now: datetime) -> Iterator[Write]:
    replica_id = names.replica()
    shards = tuple(
        Shard(id=f"{replica_id}.{rank}", rank=rank, allocation=allocation, key=names.engine_key())
        for rank, allocation in enumerate(placement.allocations)
    )
    yield PutReplica(
        replica=Replica(
            id=replica_id,
            model=placement.model,
            revision=placement.revision,
            state=ReplicaState.STARTING,
            shards=shards,
            created_at=now,
            state_since=now,
        )
    )
    where = ", ".join(shard.allocation.node for shard in shards)
    message = f"replica {replica_id} of {placement.model} is placed on {where}"
    yield _event(now, "replica.placed", Severity.INFO, message, model=placement.model, replica=replica_id)


def _tell_shortfalls(plan: Plan, snapshot: Snapshot) -> Iterator[Write]:
    short = {shortfall.model: shortfall for shortfall in plan.shortfalls}
    for model in snapshot.models:
        if plan.judged is not None and model.model.name not in plan.judged:
            continue
        status = _with_shortfall(model.status, short.get(model.model.name))
        if status == model.status:
            continue
        yield PutStatus(status=status)
        if status.unplaceable is not None and model.status.unplaceable is None:
            message = f"{status.model} fits nowhere now: {status.unplaceable}"
            yield _event(snapshot.now, "model.unplaceable", Severity.WARNING, message, model=status.model)


def _with_shortfall(status: ModelStatus, shortfall: Shortfall | None) -> ModelStatus:
    if shortfall is None:
        return replace(status, unplaceable=None, rejections=())
    return replace(status, unplaceable=shortfall.sentence, rejections=shortfall.rejections)


def _event(
    now: datetime, kind: str, severity: Severity, message: str, *, model: str, replica: str | None = None
) -> AppendEvent:
    return AppendEvent(event=Event(at=now, kind=kind, severity=severity, message=message, model=model, replica=replica))
