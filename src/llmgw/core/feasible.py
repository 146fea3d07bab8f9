"""Which nodes can take a shard: all nodes by kind and free devices, and the room left as a plan fills it.

Nothing here looks at every node for every question: kinds are judged once per need, and within a kind the nodes with
equal free devices lie in the order in which they would be chosen.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from llmgw.core.fit import (
    Need,
    Refusal,
    after_weights,
    apart,
    before_weights,
    classes_of,
    may_yet_find,
    spare_refusal,
    weights_refusal,
)
from llmgw.core.ledger import Ledger
from llmgw.core.offer import Kind, Offers, Sight
from llmgw.core.rank import BlockRank, block_rank
from llmgw.core.shelf import Entry, Shelf
from llmgw.core.snapshot import NodeSnapshot
from llmgw.schema.device import Device
from llmgw.schema.plan import Allocation, Constraint, Rejection
from llmgw.schema.replica import Replica

Members = AbstractSet[str] | None
"""Nodes of a kind; `None` is all of them."""


class Opening(NamedTuple):
    """Nodes of one kind that a need may go to, apart from its amounts."""

    kind: Kind
    assumed: bool
    """Nobody looked for its weights there."""
    members: Members


class Group(NamedTuple):
    """Nodes with enough free devices whose choice costs the fleet the same; ask the shelf for those that fit."""

    shelf: Shelf
    members: Members


class Rooms:
    """The room on all nodes. Lives within one plan; `claim` takes of it, `release` gives back."""

    def __init__(
        self,
        nodes: Iterable[NodeSnapshot],
        replicas: Iterable[Replica],
        *,
        trust_silent: bool = False,
        offers: Offers | None = None,
    ) -> None:
        offers = offers or Offers()
        self.ledgers = {seen.node.id: Ledger(seen.node, offers.of(seen, trust_silent=trust_silent)) for seen in nodes}
        for replica in replicas:
            for shard in replica.shards:
                if (ledger := self.ledgers.get(shard.allocation.node)) is not None:
                    ledger.book(shard.allocation, sign=1)
        self.shelves = _arrange(self.ledgers.values())
        self.by_sight = _by_sight(self.ledgers.values())
        self.sizes = {kind: sum(len(s.entries) for s in shelves.values()) for kind, shelves in self.shelves.items()}
        self._with_path = _with_path(self.by_sight)
        self._unsearched = [sight for sight in self.by_sight if not sight.searched]
        self._seen: dict[str, tuple[Opening, ...]] = {}
        self._judged: dict[Need, dict[Kind, tuple[Refusal | None, Refusal | None]]] = {}
        self._openings: dict[tuple[Need, str | None], tuple[Opening, ...]] = {}
        self._openings_of: dict[Need, tuple[Opening, ...]] = {}
        self.classes = tuple(sorted({count.device_class for kind in self.shelves for count in kind.devices}))
        self.fabrics = tuple(sorted({fabric for kind in self.shelves for fabric in kind.fabrics}))

    def groups(self, need: Need, device_class: str | None, fabric: str | None) -> dict[BlockRank, list[Group]]:
        """Give the nodes with enough free devices of a class, by rank; in a fabric where one is named."""
        found: dict[BlockRank, list[Group]] = {}
        devices = need.devices
        for opening in self.openings(need):
            kind = opening.kind
            if fabric is not None and fabric not in kind.fabrics:
                continue
            at = None if device_class is None else kind.place_of(device_class)
            if device_class is not None and at is None:
                continue
            for shelf in self.shelves[kind].values():
                free = 0 if at is None else shelf.free[at]
                if free < devices:
                    continue
                rank = block_rank(kind, at, free, devices, assumed=opening.assumed)
                group = Group(shelf, opening.members)
                if rank in found:
                    found[rank].append(group)
                else:
                    found[rank] = [group]
        return found

    def openings(self, need: Need) -> tuple[Opening, ...]:
        """Give the nodes that a need may go to, apart from its amounts."""
        found = self._openings_of.get(need)
        if found is None:
            found = self._openings_of[need] = self._open(apart(need), need)
        return found

    def _open(self, alike: Need, need: Need) -> tuple[Opening, ...]:
        found = self._openings.get((alike, need.path))
        if found is None:
            kinds = self._open_kinds(need)
            if need.path is None:
                found = tuple([Opening(kind, assumed=True, members=None) for kind in kinds])
            else:
                found = tuple([o for o in (self.reach(need.path) if kinds else ()) if o.kind in kinds])
            self._openings[alike, need.path] = found
        return found

    def reach(self, path: str) -> tuple[Opening, ...]:
        """Give the nodes that see weights, or may see them because nobody asked them to look."""
        found = self._seen.get(path)
        if found is None:
            found = (
                *self._gather(self._with_path.get(path, ()), assumed=False),
                *self._gather((s for s in self._unsearched if path not in s.paths | s.missing), assumed=True),
            )
            self._seen[path] = found
        return found

    def place_of(self, node: str) -> tuple[Shelf, Entry]:
        """Give the shelf a node is on now, and its entry there."""
        ledger = self.ledgers[node]
        return self.shelves[ledger.offer.kind][ledger.free()], ledger.entry()

    def free_devices(self, node: str, device_class: str) -> list[Device]:
        """Give the healthy devices of one class that nobody holds, by index."""
        return self.ledgers[node].free_devices(device_class)

    def claim(self, allocation: Allocation) -> None:
        """Take what a shard will hold."""
        self._rebook(allocation, sign=1)

    def release(self, allocation: Allocation) -> None:
        """Give back what a shard held; a no-op for a node that is gone."""
        self._rebook(allocation, sign=-1)

    def rejection(self, node: str, need: Need) -> Rejection:
        """Tell why one node is not part of a replica."""
        ledger = self.ledgers[node]
        kind, sight = ledger.offer.kind, ledger.offer.sight
        before, after = self.kind_refusals(need)[kind]
        why = before or weights_refusal(sight, need) or after
        if why is None:
            why = spare_refusal(kind, ledger.spare(), need, classes_of(need, self.classes)) or _alone(need)
        return Rejection(node=node, constraint=why.constraint, detail=self.detail(node, why))

    def detail(self, node: str, why: Refusal) -> str:
        """Say why, with what is wrong with unhealthy devices."""
        faults = self.ledgers[node].faults() if why.constraint is Constraint.DEVICES_BUSY else ""
        return f"{why.detail} ({faults})" if faults and "unhealthy" in why.detail else why.detail

    def rejections(self, need: Need) -> tuple[Rejection, ...]:
        """Tell for each node why it is not part of a replica, sorted by node."""
        return tuple(self.rejection(node, need) for node in sorted(self.ledgers))

    def may_yet_find(self, need: Need) -> bool:
        """True when some node lacks nothing but weights it has not looked for yet."""
        kinds = self._open_kinds(need)
        return bool(kinds) and any(
            may_yet_find(sight, need) and not kinds.isdisjoint(nodes) for sight, nodes in self.by_sight.items()
        )

    def kind_refusals(self, need: Need) -> dict[Kind, tuple[Refusal | None, Refusal | None]]:
        """Give for each kind the first constraint that comes before the weights, and the first that comes after."""
        found = self._judged.get(need)
        if found is None:
            alike = apart(need)
            found = self._judged.get(alike)
            if found is None:
                found = {kind: (before_weights(kind, alike), after_weights(kind, alike)) for kind in self.shelves}
                self._judged[alike] = found
            self._judged[need] = found
        return found

    def _open_kinds(self, need: Need) -> frozenset[Kind]:
        return frozenset([kind for kind, (before, after) in self.kind_refusals(need).items() if not (before or after)])

    def _gather(self, sights: Iterable[Sight], *, assumed: bool) -> Iterator[Opening]:
        found: dict[Kind, list[list[str]]] = {}
        for sight in sights:
            for kind, nodes in self.by_sight[sight].items():
                found.setdefault(kind, []).append(nodes)
        for kind, lists in found.items():
            whole = sum(len(nodes) for nodes in lists) == self.sizes[kind]
            yield Opening(kind, assumed, None if whole else frozenset().union(*lists))

    def _rebook(self, allocation: Allocation, *, sign: int) -> None:
        ledger = self.ledgers.get(allocation.node)
        if ledger is None:
            return
        shelves, free = self.shelves[ledger.offer.kind], ledger.free()
        before = shelves[free]
        before.take(ledger.entry())
        if not before.entries:
            del shelves[free]
        ledger.book(allocation, sign=sign)
        free = ledger.free()
        shelf = shelves.get(free)
        if shelf is None:
            shelf = shelves[free] = Shelf(ledger.offer.kind, free)
        shelf.put(ledger.entry())


def _arrange(ledgers: Iterable[Ledger]) -> dict[Kind, dict[tuple[int, ...], Shelf]]:
    found: dict[Kind, dict[tuple[int, ...], list[Ledger]]] = {}
    for ledger in ledgers:
        found.setdefault(ledger.offer.kind, {}).setdefault(ledger.free(), []).append(ledger)
    arranged: dict[Kind, dict[tuple[int, ...], Shelf]] = {}
    for kind, by_free in found.items():
        shelves = arranged[kind] = {}
        for free, alike in by_free.items():
            shelf = shelves[free] = Shelf(kind, free)
            shelf.fill([ledger.entry() for ledger in alike])
    return arranged


def _by_sight(ledgers: Iterable[Ledger]) -> dict[Sight, dict[Kind, list[str]]]:
    found: dict[Sight, dict[Kind, list[str]]] = {}
    for ledger in ledgers:
        found.setdefault(ledger.offer.sight, {}).setdefault(ledger.offer.kind, []).append(ledger.node.id)
    return found


def _with_path(sights: Iterable[Sight]) -> dict[str, list[Sight]]:
    found: dict[str, list[Sight]] = {}
    for sight in sights:
        for path in sight.paths:
            found.setdefault(path, []).append(sight)
    return found


def _alone(need: Need) -> Refusal:
    where = f"fabric {need.fabric} has not" if need.fabric else "no fabric has"
    return Refusal(constraint=Constraint.FABRIC, detail=f"fits, but {where} {need.nodes} such nodes")
