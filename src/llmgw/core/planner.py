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
from llmgw.core.rank import Beside
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
    later = _Later(snapshot=snapshot, found=found, claims=[], offers=offers)
    coming = later.rooms() if later.differs() else now
    placed, short = _place_all(found.wants, now, coming, later.claims)
    freed, short = _make_room(later, short, coming)
    return Plan(
        placements=tuple([_placement(want, allocations) for want, allocations in placed]),
        removals=_sorted((*found.removals, *freed)),
        shortfalls=tuple(_shortfalls(short, now)),
    )


class _Later(NamedTuple):
    """The fleet once all that is stopping has stopped and all nodes believed ready have reported."""

    snapshot: Snapshot
    found: Wanted
    claims: list[Allocation]
    """What this plan gives away, and keeps for those who wait."""
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


def _place_all(
    wants: Iterable[Want], now: Rooms, coming: Rooms, claims: list[Allocation]
) -> tuple[list[tuple[Want, tuple[Allocation, ...]]], list[Want]]:
    """Place what fits, claiming as it goes; give what was placed and what fits neither now nor later.

    What fits later waits, and its room is kept for it: smaller ones that come after it would take it piece by piece,
    and it would wait for ever. What fits nowhere once fits nowhere later in a plan: room only shrinks.
    """
    placed: list[tuple[Want, tuple[Allocation, ...]]] = []
    short: list[Want] = []
    hopeless: set[Need] = set()
    here: dict[str, dict[str, int]] = {}
    for want in wants:
        need, replicas = want.need, here.get(want.model.model.name)
        if replicas is None:
            replicas = here[want.model.model.name] = dict(want.beside.replicas)
        beside = Beside(replicas, want.beside.failures)
        allocations = None if need in hopeless else place(now, need, beside)
        if allocations is not None:
            placed.append((want, allocations))
        elif coming is not now and need not in hopeless:
            allocations = place(coming, need, beside)
        if allocations is None:
            hopeless.add(need)
            short.append(want)
            continue
        claims.extend(allocations)
        for allocation in allocations:
            now.claim(allocation)
            if coming is not now:
                coming.claim(allocation)
            replicas[allocation.node] = replicas.get(allocation.node, 0) + 1
    return placed, short


def _make_room(later: _Later, short: list[Want], coming: Rooms) -> tuple[list[Removal], list[Want]]:
    """For what does not fit: give what to stop for it, and what fits nowhere even then."""
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
