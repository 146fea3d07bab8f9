"""The planner: one snapshot in, one plan out.

For each wanted replica in order: place it where it fits now; else wait, if room for it is on its way (replicas that
end, nodes that have yet to report); else stop what may be stopped for it; else tell why it fits nowhere.

Promises, each held by a test: nothing is claimed twice; a replica is placed whole or not at all; the order of the
input does not matter; a plan carried out leaves nothing to place or remove; only what then makes room is stopped.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from llmgw.core.feasible import Rooms
from llmgw.core.fit import Need
from llmgw.core.placement import place
from llmgw.core.plan_text import sentence
from llmgw.core.snapshot import Snapshot
from llmgw.core.wants import StandIn, Want, Wanted, wanted
from llmgw.schema.node import NodeState
from llmgw.schema.plan import Allocation, Placement, Plan, Rejection, Removal, Shortfall
from llmgw.schema.replica import Replica, ReplicaState

LOOKING_TIME = timedelta(seconds=30)
"""How long a new model waits silently for nodes to look for its weights: six heartbeats."""
_ANSWERING = frozenset({NodeState.READY, NodeState.CORDONED, NodeState.DRAINING})


def plan(snapshot: Snapshot) -> Plan:
    """Decide what to place and what to stop, and say what fits nowhere.

    Shortfalls are told whole in each plan: a model not among them is not short of room.
    """
    found = wanted(snapshot)
    now = Rooms(snapshot.nodes, snapshot.replicas)
    placements: list[Placement] = []
    waiting: list[Want] = []
    for want, allocations in _place_all(found.wants, now):
        if allocations is None:
            waiting.append(want)
        else:
            placements.append(_placement(want, allocations))
    if not waiting:
        return Plan(placements=tuple(placements), removals=_sorted(found.removals))
    freed, short = _make_room(snapshot, found, placements, waiting)
    return Plan(
        placements=tuple(placements),
        removals=_sorted((*found.removals, *freed)),
        shortfalls=tuple(_shortfalls(short, now)),
    )


def _place_all(wants: Iterable[Want], rooms: Rooms) -> Iterator[tuple[Want, tuple[Allocation, ...] | None]]:
    """Place what fits, claiming as it goes. What fits nowhere once fits nowhere later: room only shrinks."""
    hopeless: set[Need] = set()
    same_model: dict[str, dict[str, int]] = {}
    for want in wants:
        beside = same_model.setdefault(want.model.model.name, dict(want.same_model))
        allocations = None if want.need in hopeless else _claim(want, rooms, beside)
        if allocations is None:
            hopeless.add(want.need)
        yield want, allocations


def _claim(want: Want, rooms: Rooms, beside: dict[str, int]) -> tuple[Allocation, ...] | None:
    allocations = place(rooms, want.need, beside)
    for allocation in allocations or ():
        rooms.claim(allocation)
        beside[allocation.node] = beside.get(allocation.node, 0) + 1
    return allocations


def _make_room(
    snapshot: Snapshot, found: Wanted, placements: list[Placement], waiting: list[Want]
) -> tuple[list[Removal], list[Want]]:
    """For what does not fit now: give what to stop for it, and what fits nowhere even then."""
    coming = _coming_room(snapshot, found, placements)
    short = [want for want, allocations in _place_all(waiting, coming) if allocations is None]
    short = [want for want in short if not _is_looked_for(want, coming, snapshot)]
    maker = _RoomMaker(coming, found.corpses)
    short = [want for want in short if not maker.make(want)]
    return [] if _is_draining(snapshot) else maker.removals, short


def _coming_room(snapshot: Snapshot, found: Wanted, placements: list[Placement]) -> Rooms:
    """Give the room once all that is stopping has stopped and all nodes believed ready have reported."""
    leaving = {removal.replica for removal in found.removals}
    staying = (r for r in snapshot.replicas if r.state is not ReplicaState.DRAINING and r.id not in leaving)
    rooms = Rooms(snapshot.nodes, staying, trust_silent=True)
    for placement in placements:
        for allocation in placement.allocations:
            rooms.claim(allocation)
    return rooms


def _is_looked_for(want: Want, rooms: Rooms, snapshot: Snapshot) -> bool:
    is_new = snapshot.now - want.model.model.created_at <= LOOKING_TIME
    return is_new and rooms.may_yet_find(want.need)


def _is_draining(snapshot: Snapshot) -> bool:
    """True while replicas end on nodes that answer: what they free is seen before more is stopped to make room."""
    answering = {seen.node.id for seen in snapshot.nodes if seen.state in _ANSWERING}
    return any(
        replica.state is ReplicaState.DRAINING and all(s.allocation.node in answering for s in replica.shards)
        for replica in snapshot.replicas
    )


class _RoomMaker:
    """Finds what to stop for a want: one stand-in of its own model, else what parked models left where it goes."""

    def __init__(self, rooms: Rooms, corpses: tuple[Replica, ...]) -> None:
        self.removals: list[Removal] = []
        self._rooms = rooms
        self._corpses = list(corpses)
        self._stopped: set[str] = set()

    def make(self, want: Want) -> bool:
        """Stop what makes room for a want; False, and nothing stopped, when nothing does."""
        return any(self._replaces(want, one) for one in want.stand_ins) or self._buries(want)

    def _replaces(self, want: Want, one: StandIn) -> bool:
        if one.replica.id in self._stopped:
            return False
        self._release(one.replica)
        if _claim(want, self._rooms, dict(want.same_model)) is None:
            self._hold(one.replica)
            return False
        self._stop(one.replica, f"{one.reason}; makes room for its replacement")
        return True

    def _buries(self, want: Want) -> bool:
        for corpse in self._corpses:
            self._release(corpse)
        allocations = _claim(want, self._rooms, dict(want.same_model))
        nodes = {allocation.node for allocation in allocations or ()}
        in_the_way = [c for c in self._corpses if any(s.allocation.node in nodes for s in c.shards)]
        for corpse in in_the_way:
            self._stop(corpse, f"its model is parked; makes room for {want.model.model.name}")
        self._corpses = [corpse for corpse in self._corpses if corpse not in in_the_way]
        for corpse in self._corpses:
            self._hold(corpse)
        return allocations is not None

    def _stop(self, replica: Replica, reason: str) -> None:
        self._stopped.add(replica.id)
        self.removals.append(Removal(replica=replica.id, reason=reason))

    def _release(self, replica: Replica) -> None:
        for shard in replica.shards:
            self._rooms.release(shard.allocation)

    def _hold(self, replica: Replica) -> None:
        for shard in replica.shards:
            self._rooms.claim(shard.allocation)


def _shortfalls(short: list[Want], rooms: Rooms) -> Iterator[Shortfall]:
    """Tell per model how many replicas fit nowhere. Equal needs are refused by equal reasons, found once."""
    told: dict[Need, tuple[tuple[Rejection, ...], str]] = {}
    missing: dict[str, list[Want]] = {}
    for want in short:
        missing.setdefault(want.model.model.name, []).append(want)
    for name, wants in sorted(missing.items()):
        need = wants[0].need
        if need not in told:
            rejections = rooms.rejections(need)
            told[need] = (rejections, sentence(rejections, len(rejections)))
        rejections, text = told[need]
        yield Shortfall(model=name, missing=len(wants), sentence=text, rejections=rejections)


def _placement(want: Want, allocations: tuple[Allocation, ...]) -> Placement:
    return Placement(model=want.model.model.name, revision=want.model.model.revision, allocations=allocations)


def _sorted(removals: Iterable[Removal]) -> tuple[Removal, ...]:
    return tuple(sorted(removals, key=lambda removal: removal.replica))
