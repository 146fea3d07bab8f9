"""What should change, before asking where it could go: replicas to stop now, replicas wanted, and who stands in.

A replica of the model's present revision on nodes that stay is current. A ready one that is not (older revision, node
draining, or one of several lost) stands in: it serves until a current one is ready in its place. One whose nodes are
all lost is absent: it keeps its row, and when it comes back healthy, the older one stays and the newer one goes. All
others that are not current go at once. Never more current replicas than desired; a parked model wants nothing new.

A ready replica is stopped only for others that an agent says are ready, so that no healthy one ever goes for a memory.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from llmgw.core.demand import desired_replicas
from llmgw.core.fit import Need, need_of
from llmgw.core.parking import recent
from llmgw.core.patience import sparing
from llmgw.core.rank import Beside
from llmgw.core.snapshot import ModelSnapshot, Snapshot
from llmgw.schema.model import ModelStatus, Parked
from llmgw.schema.node import NodeState
from llmgw.schema.plan import Removal
from llmgw.schema.replica import Replica, ReplicaState
from llmgw.schema.value import Value

_LEAVING = frozenset({NodeState.LOST, NodeState.DRAINING})
_SILENT = frozenset({NodeState.LOST, NodeState.UNREACHABLE})
_NOWHERE: Mapping[str, int] = {}


class StandIn(Value, frozen=True, kw_only=True):
    """A ready replica that serves until another does, and why it is to go."""

    replica: Replica
    reason: str
    silent: bool
    """Its node is lost: it may not serve at all, so that nothing waits for it."""


class Want(Value, frozen=True, kw_only=True):
    """One more replica of a model."""

    model: ModelSnapshot
    need: Need
    nth: int
    """Which replica of the model it will be, from 0."""
    stand_ins: tuple[StandIn, ...]
    """Replicas of the same model that may be stopped to make room, the least useful first."""
    beside: Beside
    """What speaks against single nodes."""


class Wanted(Value, frozen=True, kw_only=True):
    """What should change."""

    removals: tuple[Removal, ...]
    wants: tuple[Want, ...]
    """In the order in which they are to be served."""
    corpses: tuple[Replica, ...]
    """Failed replicas of parked models: they keep their place, logs and all, until another wants it."""


def wanted(snapshot: Snapshot) -> Wanted:
    """Compare what is with what should be."""
    states = {seen.node.id: seen.state for seen in snapshot.nodes}
    seats = _Seats(states, sparing(seen.node for seen in snapshot.nodes), snapshot.doubtful)
    by_model: dict[str, list[Replica]] = {seen.model.name: [] for seen in snapshot.models}
    removals: list[Removal] = []
    for replica in sorted(snapshot.replicas, key=lambda replica: replica.id):
        if replica.state is ReplicaState.DRAINING:
            continue
        reason = _orphaned(replica, by_model, states)
        if reason is None:
            by_model[replica.model].append(replica)
        else:
            removals.append(Removal(replica=replica.id, reason=reason))
    wants: list[Want] = []
    corpses: list[Replica] = []
    for model in sorted(snapshot.models, key=lambda seen: seen.model.name):
        replicas = by_model[model.model.name]
        stock = _sort(model, replicas, seats) if replicas else _NO_STOCK
        removals.extend(stock.removals)
        corpses.extend(stock.corpses)
        wants.extend(_wants(model, stock, snapshot.now))
    return Wanted(removals=tuple(removals), wants=tuple(sorted(wants, key=_order)), corpses=tuple(corpses))


def parked(model: ModelSnapshot) -> Parked | None:
    """Give why the model's present revision is parked."""
    status: ModelStatus = model.status
    return status.parked if status.revision == model.model.revision else None


def failures(model: ModelSnapshot, now: datetime) -> Mapping[str, int]:
    """Count by node what starts of the model's present revision failed, and what replicas died, of late."""
    status = model.status
    if not status.failed_on or status.revision != model.model.revision:
        return _NOWHERE
    return Counter(failure.node for failure in recent(status.failed_on, now))


def is_absent(replica: Replica, states: Mapping[str, NodeState]) -> bool:
    """True for a ready replica that is gone with its nodes, and may come back with them."""
    return replica.state is ReplicaState.READY and all(
        states.get(shard.allocation.node) is NodeState.LOST for shard in replica.shards
    )


class _Seats(NamedTuple):
    """What is known of the nodes, and of replicas there."""

    states: Mapping[str, NodeState]
    sparing: Mapping[str, frozenset[str]]
    """By lost node the models that wait for it."""
    doubtful: frozenset[str]


class _Stock(Value, frozen=True, kw_only=True):
    """A model's replicas, sorted out. `current` and `stand_ins` are those that stay for now."""

    current: tuple[Replica, ...]
    stand_ins: tuple[StandIn, ...]
    corpses: tuple[Replica, ...]
    removals: tuple[Removal, ...]


_NO_STOCK = _Stock(current=(), stand_ins=(), corpses=(), removals=())


def _orphaned(replica: Replica, models: Mapping[str, object], states: Mapping[str, NodeState]) -> str | None:
    if replica.model not in models:
        return "its model was removed"
    for shard in replica.shards:
        if shard.allocation.node not in states:
            return f"its node {shard.allocation.node} was removed"
    return None


def _sort(model: ModelSnapshot, replicas: Iterable[Replica], seats: _Seats) -> _Stock:
    states, doubtful = seats.states, seats.doubtful
    desired = desired_replicas(model.model, model.wanted)
    current: list[Replica] = []
    stand_ins: list[StandIn] = []
    removals: list[Removal] = []
    for replica in replicas:
        reason = _leaving(replica, model, seats)
        if reason is None:
            current.append(replica)
        elif desired and is_absent(replica, states):
            continue
        elif replica.state is ReplicaState.READY:
            stand_ins.append(StandIn(replica=replica, reason=reason, silent=_on(replica, states, {NodeState.LOST})))
        else:
            removals.append(Removal(replica=replica.id, reason=reason))
    current.sort(key=lambda replica: _keep(replica, states, doubtful))
    serving = sum(r.state is ReplicaState.READY and r.id not in doubtful for r in current[:desired])
    surplus = f"{len(current)} replicas, {desired} wanted"
    removals.extend(
        Removal(replica=replica.id, reason=surplus)
        for replica in current[desired:]
        if serving or not desired or replica.state is not ReplicaState.READY
    )
    current = current[:desired]
    stand_ins.sort(key=lambda one: _keep(one.replica, states, doubtful), reverse=True)
    dismissed = max(0, len(stand_ins) - max(0, desired - serving))
    removals.extend(Removal(replica=one.replica.id, reason=one.reason) for one in stand_ins[:dismissed])
    return _Stock(
        current=tuple(current),
        stand_ins=tuple(stand_ins[dismissed:]),
        corpses=tuple(r for r in current if r.state is ReplicaState.FAILED) if parked(model) else (),
        removals=tuple(removals),
    )


def _leaving(replica: Replica, model: ModelSnapshot, seats: _Seats) -> str | None:
    """Say why a replica cannot stay where it is or as it is."""
    for shard in replica.shards:
        node = shard.allocation.node
        state = seats.states[node]
        if state in _LEAVING and (state is not NodeState.LOST or replica.model not in seats.sparing.get(node, ())):
            return f"its node {node} is {state}"
    if replica.revision != model.model.revision:
        return f"replaced by revision {model.model.revision}"
    return None


def _on(replica: Replica, states: Mapping[str, NodeState], among: Iterable[NodeState]) -> bool:
    return any(states[shard.allocation.node] in among for shard in replica.shards)


def _keep(replica: Replica, states: Mapping[str, NodeState], doubtful: frozenset[str]) -> tuple[object, ...]:
    """Order in which replicas are worth keeping: on nodes that answer, furthest on, surely serving, oldest."""
    progress = (ReplicaState.READY, ReplicaState.STARTING, ReplicaState.FAILED).index(replica.state)
    return (_on(replica, states, _SILENT), progress, replica.id in doubtful, replica.created_at, replica.id)


def _wants(model: ModelSnapshot, stock: _Stock, now: datetime) -> Iterable[Want]:
    if parked(model) is not None:
        return
    have, desired = len(stock.current), desired_replicas(model.model, model.wanted)
    if have >= desired:
        return
    covered = sum(not one.silent for one in stock.stand_ins)
    pending = sum(replica.state is not ReplicaState.READY for replica in stock.current)
    # What nobody covers is wanted at once; what stand-ins cover is replaced one at a time.
    count = min(desired - have, max(desired - have - covered, 1 - pending))
    if count <= 0:
        return
    need, beside = need_of(model), Beside(_per_node(stock), failures(model, now))
    for index in range(count):
        yield Want(model=model, need=need, nth=have + index, stand_ins=stock.stand_ins, beside=beside)


def _per_node(stock: _Stock) -> Mapping[str, int]:
    if stock is _NO_STOCK:
        return _NOWHERE
    counts: dict[str, int] = {}
    for replica in stock.current + tuple(one.replica for one in stock.stand_ins):
        for shard in replica.shards:
            counts[shard.allocation.node] = counts.get(shard.allocation.node, 0) + 1
    return dict(sorted(counts.items()))


def _order(want: Want) -> tuple[object, ...]:
    """First every model's first replica, then the large before the small, so that crumbs fill gaps and not blocks."""
    need, model = want.need, want.model.model
    return (
        want.nth > 0,
        -need.devices * need.nodes,
        -need.nodes,
        -need.memory_bytes,
        -need.milli_cores,
        model.created_at,
        model.name,
        want.nth,
    )
