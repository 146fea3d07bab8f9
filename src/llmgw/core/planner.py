"""The planner: one snapshot in, one plan out.

For each wanted replica in order: place it where it fits now; else wait, if room for it is on its way (replicas that
end, nodes that have yet to report); else stop what may be stopped for it; else tell why it fits nowhere.

Promises, each held by a test: nothing is claimed twice; a replica is placed whole or not at all; the order of the
input does not matter; a plan carried out leaves nothing to place or remove; only what then makes room is stopped.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import NamedTuple

from llmgw.core.feasible import Rooms
from llmgw.core.fit import Need
from llmgw.core.offer import Offers
from llmgw.core.placement import place
from llmgw.core.plan_text import counted_sentence
from llmgw.core.refusals import Refused, refused
from llmgw.core.room_maker import RoomMaker
from llmgw.core.snapshot import Snapshot
from llmgw.core.wants import Want, Wanted, wanted
from llmgw.schema.node import NodeState
from llmgw.schema.plan import Allocation, Placement, Plan, Removal, Shortfall
from llmgw.schema.replica import ReplicaState

LOOKING_TIME = timedelta(seconds=30)
"""How long a new model waits silently for nodes to look for its weights: six heartbeats."""
_ANSWERING = frozenset({NodeState.READY, NodeState.CORDONED, NodeState.DRAINING})


def plan(snapshot: Snapshot, *, offers: Offers | None = None) -> Plan:
    """Decide what to place and what to stop, and say what fits nowhere.

    Shortfalls are told whole in each plan: a model not among them is not short of room. `offers` may be kept from plan
    to plan of one fleet: it saves time and changes nothing.
    """
    found = wanted(snapshot)
    if not found.wants:
        return Plan(removals=_sorted(found.removals))
    offers = offers or Offers()
    offers.trim(len(snapshot.nodes))
    now = Rooms(snapshot.nodes, snapshot.replicas, offers=offers)
    placements: list[Placement] = []
    waiting: list[Want] = []
    for want, allocations in _place_all(found.wants, now):
        if allocations is None:
            waiting.append(want)
        else:
            placements.append(_placement(want, allocations))
    if not waiting:
        return Plan(placements=tuple(placements), removals=_sorted(found.removals))
    claims = [allocation for placement in placements for allocation in placement.allocations]
    later = _Later(snapshot=snapshot, found=found, claims=claims, offers=offers)
    freed, short = _make_room(later, waiting, now)
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


class _Later(NamedTuple):
    """The fleet once all that is stopping has stopped and all nodes believed ready have reported."""

    snapshot: Snapshot
    found: Wanted
    claims: list[Allocation]
    """What this plan gives away."""
    offers: Offers

    def differs(self) -> bool:
        """True when that is any other room than there is now."""
        return (
            bool(self.found.removals)
            or any(replica.state is ReplicaState.DRAINING for replica in self.snapshot.replicas)
            or any(seen.reports is None and seen.state is NodeState.READY for seen in self.snapshot.nodes)
        )

    def rooms(self) -> Rooms:
        """Give the room there will be."""
        leaving = {removal.replica for removal in self.found.removals}
        replicas = self.snapshot.replicas
        staying = (r for r in replicas if r.state is not ReplicaState.DRAINING and r.id not in leaving)
        rooms = Rooms(self.snapshot.nodes, staying, trust_silent=True, offers=self.offers)
        for allocation in self.claims:
            rooms.claim(allocation)
        return rooms


def _make_room(later: _Later, waiting: list[Want], now: Rooms) -> tuple[list[Removal], list[Want]]:
    """For what does not fit now: give what to stop for it, and what fits nowhere even then."""
    short, coming = waiting, now
    if later.differs():
        short, coming = [], later.rooms()
        for want, allocations in _place_all(waiting, coming):
            if allocations is None:
                short.append(want)
            else:
                later.claims.extend(allocations)
    short = [want for want in short if not _is_looked_for(want, coming, later.snapshot)]
    if not later.found.corpses and not any(want.stand_ins for want in short):
        return [], short
    maker = RoomMaker(later.rooms, later.found.corpses)
    short = [want for want in short if not maker.make(want)]
    return [] if _is_draining(later.snapshot) else maker.removals, short


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


def _shortfalls(short: list[Want], rooms: Rooms) -> Iterator[Shortfall]:
    """Tell per model how many replicas fit nowhere. Equal needs are refused by equal reasons, found once."""
    told: dict[Need, tuple[Refused, str]] = {}
    missing: dict[str, list[Want]] = {}
    for want in short:
        missing.setdefault(want.model.model.name, []).append(want)
    for name, wants in sorted(missing.items()):
        need = wants[0].need
        if need not in told:
            why = refused(rooms, need)
            told[need] = why, counted_sentence(why.counts, why.rejections, len(rooms.ledgers))
        why, text = told[need]
        yield Shortfall(model=name, missing=len(wants), sentence=text, rejections=why.rejections, counts=why.counts)


def _placement(want: Want, allocations: tuple[Allocation, ...]) -> Placement:
    return Placement(model=want.model.model.name, revision=want.model.model.revision, allocations=allocations)


def _sorted(removals: Iterable[Removal]) -> tuple[Removal, ...]:
    return tuple(sorted(removals, key=lambda removal: removal.replica))
