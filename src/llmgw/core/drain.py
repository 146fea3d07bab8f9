"""What draining a node would do: the planner is asked step by step, each step carried out as if all went well."""

from collections.abc import Callable

from msgspec.structs import replace

from llmgw.core.node_intent import with_intent
from llmgw.core.node_lifecycle import shown_state
from llmgw.core.snapshot import Snapshot
from llmgw.schema.admin.drain import DrainBreak, DrainMove, DrainPreview, DrainWait
from llmgw.schema.node import Intent, NodeState
from llmgw.schema.plan import Placement, Plan
from llmgw.schema.replica import Replica, ReplicaState, Shard

STEPS = 200
"""Most steps looked ahead; replicas of one model move one after another, and a node holds far fewer."""


def preview(snapshot: Snapshot, node_id: str, planner: Callable[[Snapshot], Plan]) -> DrainPreview:
    """Say what moves, what waits and what breaks when the node drains and nothing else changes."""
    affected = {
        replica.id: replica
        for replica in snapshot.replicas
        if replica.state is not ReplicaState.DRAINING and _is_on(replica, node_id)
    }
    return _Preview(_draining(snapshot, node_id), affected, planner).run()


def foreseen(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """Give the snapshot after a plan was carried out: all that started is ready, all that was stopped is gone."""
    leaving = {removal.replica for removal in plan.removals}
    staying = tuple(
        replace(replica, state=ReplicaState.READY) if replica.state is ReplicaState.STARTING else replica
        for replica in snapshot.replicas
        if replica.id not in leaving and replica.state is not ReplicaState.DRAINING
    )
    number = len(snapshot.replicas) + len(plan.placements)
    placed = tuple(_placed(f"foreseen-{number}-{n}", one, snapshot) for n, one in enumerate(plan.placements))
    return replace(snapshot, replicas=staying + placed)


class _Preview:
    """Notes what becomes of the affected replicas while the planner is asked."""

    def __init__(self, snapshot: Snapshot, affected: dict[str, Replica], planner: Callable[[Snapshot], Plan]) -> None:
        self._snapshot = snapshot
        self._left = affected
        self._planner = planner
        self._placed: dict[str, list[tuple[str, ...]]] = {}
        self._moves: list[DrainMove] = []
        self._breaks: list[DrainBreak] = []

    def run(self) -> DrainPreview:
        plan = self._planner(self._snapshot)
        for _ in range(STEPS):
            if not plan.placements and not plan.removals:
                break
            self._note(plan)
            self._snapshot = foreseen(self._snapshot, plan)
            plan = self._planner(self._snapshot)
        return DrainPreview(
            moves=tuple(sorted(self._moves, key=lambda one: one.replica)),
            waits=tuple(self._wait(replica, plan) for _, replica in sorted(self._left.items())),
            breaks=tuple(sorted(self._breaks, key=lambda one: one.replica)),
        )

    def _note(self, plan: Plan) -> None:
        for placement in plan.placements:
            nodes = tuple(allocation.node for allocation in placement.allocations)
            self._placed.setdefault(placement.model, []).append(nodes)
        short = {shortfall.model: shortfall.sentence for shortfall in plan.shortfalls}
        for removal in plan.removals:
            replica = self._left.pop(removal.replica, None)
            if replica is not None:
                self._end(replica, removal.reason, short.get(replica.model))

    def _end(self, replica: Replica, reason: str, short: str | None) -> None:
        placed = self._placed.get(replica.model)
        if placed:
            self._moves.append(DrainMove(replica=replica.id, model=replica.model, to=placed.pop(0)))
        elif replica.state is ReplicaState.READY and self._serving(replica):
            self._moves.append(DrainMove(replica=replica.id, model=replica.model))
        else:
            text = reason if short is None else f"{reason}; another fits nowhere now: {short}"
            self._breaks.append(DrainBreak(replica=replica.id, model=replica.model, reason=text))

    def _serving(self, but: Replica) -> bool:
        return any(
            replica.model == but.model and replica.state is ReplicaState.READY and replica.id != but.id
            for replica in self._snapshot.replicas
        )

    def _wait(self, replica: Replica, plan: Plan) -> DrainWait:
        states = {seen.node.id: seen.state for seen in self._snapshot.nodes}
        silent = [s.allocation.node for s in replica.shards if states.get(s.allocation.node) in _SILENT]
        sentences = {shortfall.model: shortfall.sentence for shortfall in plan.shortfalls}
        reason = sentences.get(replica.model, "nothing is placed for its model now")
        if silent:
            reason = f"node {silent[0]} is {states[silent[0]]}: nothing can be asked of it"
        return DrainWait(replica=replica.id, model=replica.model, reason=reason)


_SILENT = frozenset({NodeState.UNREACHABLE, NodeState.LOST})


def _draining(snapshot: Snapshot, node_id: str) -> Snapshot:
    nodes = []
    for seen in snapshot.nodes:
        if seen.node.id != node_id:
            nodes.append(seen)
            continue
        node = with_intent(seen.node, Intent.DRAINING, None)
        nodes.append(replace(seen, node=node, state=shown_state(node)))
    return replace(snapshot, nodes=tuple(nodes))


def _is_on(replica: Replica, node_id: str) -> bool:
    return any(shard.allocation.node == node_id for shard in replica.shards)


def _placed(replica_id: str, placement: Placement, snapshot: Snapshot) -> Replica:
    shards = tuple(
        Shard(id=f"{replica_id}.{rank}", rank=rank, allocation=allocation, key="")
        for rank, allocation in enumerate(placement.allocations)
    )
    return Replica(
        id=replica_id,
        model=placement.model,
        revision=placement.revision,
        state=ReplicaState.READY,
        shards=shards,
        created_at=snapshot.now,
        state_since=snapshot.now,
    )
