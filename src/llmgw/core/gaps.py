"""What keeps a shard off each node: all of it, not the first constraint only; and which nodes lack least."""

from typing import NamedTuple

from llmgw.core.feasible import Rooms
from llmgw.core.fit import Need, Refusal, classes_of, unmet
from llmgw.core.offer import Kind, Spare
from llmgw.schema.plan import Constraint

ROOM = frozenset({Constraint.DEVICES_BUSY, Constraint.CORES, Constraint.MEMORY})
"""Constraints that what runs on a node imposes."""
_WEIGHT = {
    Constraint.NOT_READY: 3,
    Constraint.SELECTOR: 2,
    Constraint.ENGINE: 4,
    Constraint.WEIGHTS: 4,
    Constraint.DEVICE_CLASS: 50,
    Constraint.FABRIC: 40,
    Constraint.DEVICES_BUSY: 10,
    Constraint.CORES: 6,
    Constraint.MEMORY: 6,
}
"""How far a constraint keeps a node from fitting: a label is set at once, a card has to be bought."""


class Gap(NamedTuple):
    """One node and what it lacks."""

    distance: int
    node: str
    kind: Kind
    spare: Spare
    lacks: tuple[Refusal, ...]

    @property
    def constraints(self) -> frozenset[Constraint]:
        """All that keeps a shard off it."""
        return frozenset(refusal.constraint for refusal in self.lacks)


def gaps(rooms: Rooms, need: Need) -> list[Gap]:
    """Give all nodes, those that lack least first."""
    classes = classes_of(need, rooms.classes)
    found = []
    for node, ledger in rooms.ledgers.items():
        kind, spare = ledger.offer.kind, ledger.spare()
        lacks = unmet(kind, ledger.offer.sight, spare, need, classes)
        distance = sum([_WEIGHT[refusal.constraint] for refusal in lacks])
        found.append(Gap(distance, node, kind, spare, lacks))
    found.sort(key=lambda gap: (gap.distance, gap.node))
    return found


def teams(found: list[Gap], need: Need) -> list[tuple[Gap, ...]]:
    """Give sets of nodes that could carry one replica if each of them fitted, those that lack least first."""
    if need.nodes == 1:
        return [(gap,) for gap in found]
    names = {need.fabric} if need.fabric else {name for gap in found for name in gap.kind.fabrics}
    by_fabric = ([gap for gap in found if name in gap.kind.fabrics] for name in sorted(names))
    whole = [tuple(members[: need.nodes]) for members in by_fabric if len(members) >= need.nodes]
    return sorted(whole, key=lambda team: (sum(gap.distance for gap in team), [gap.node for gap in team]))
