"""Why a replica fits nowhere: all nodes' first constraints counted without asking each, and some nodes in full.

In a small fleet every node is told; in a large one the closest few, since a list of thousands helps nobody and each
short model would carry one.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain, islice
from typing import NamedTuple

from llmgw.core.feasible import Members, Rooms
from llmgw.core.fit import Need, classes_of
from llmgw.core.plan_text import RANK, told_of
from llmgw.core.shelf import Entry, Shelf
from llmgw.schema.plan import Constraint, RefusalCount, Rejection

SMALL = 20
"""Up to so many nodes all are told in full."""
CLOSEST = 3
"""Of more so many are."""


class Refused(NamedTuple):
    """All nodes' refusals."""

    counts: tuple[RefusalCount, ...]
    """The commonest first."""
    rejections: tuple[Rejection, ...]


class _Batch(NamedTuple):
    """Nodes that refuse for the same reason."""

    constraint: Constraint
    text: str
    size: int
    nodes: Iterable[str]


def refused(rooms: Rooms, need: Need) -> Refused:
    """Tell why no node takes a shard of a replica, or why too few do."""
    batches = [batch for batch in _batches(rooms, need) if batch.size]
    totals: dict[tuple[Constraint, str], int] = {}
    for batch in batches:
        key = batch.constraint, batch.text
        totals[key] = totals.get(key, 0) + batch.size
    order = sorted(totals.items(), key=lambda item: (-item[1], RANK[item[0][0]], item[0][1]))
    counts = tuple([RefusalCount(constraint=c, text=text, nodes=count) for (c, text), count in order])
    return Refused(counts, tuple([rooms.rejection(node, need) for node in _told(rooms, batches)]))


def _told(rooms: Rooms, batches: list[_Batch]) -> list[str]:
    if len(rooms.ledgers) <= SMALL:
        return sorted(rooms.ledgers)
    closest = sorted(batches, key=lambda batch: (-RANK[batch.constraint], batch.text))
    return sorted(islice(chain.from_iterable(batch.nodes for batch in closest), CLOSEST))


def _batches(rooms: Rooms, need: Need) -> Iterator[_Batch]:
    reach, judged = _reach(rooms, need), rooms.kind_refusals(need)
    for kind, size in rooms.sizes.items():
        why, why_after = judged[kind]
        everybody = chain.from_iterable(_names(shelf.entries) for shelf in rooms.shelves[kind].values())
        if why is not None:
            yield _Batch(why.constraint, told_of(why.constraint, why.detail), size, everybody)
            continue
        seeing: Members = reach.get(kind, frozenset()) if need.path is not None else None
        if seeing is not None:
            blind = _without(everybody, seeing)
            yield _Batch(Constraint.WEIGHTS, told_of(Constraint.WEIGHTS, ""), size - len(seeing), blind)
        why = why_after
        if why is not None:
            count, nodes = (size, everybody) if seeing is None else (len(seeing), sorted(seeing))
            yield _Batch(why.constraint, told_of(why.constraint, why.detail), count, nodes)
            continue
        for shelf in rooms.shelves[kind].values():
            yield from _room(shelf, need, seeing, rooms.classes)


def _reach(rooms: Rooms, need: Need) -> dict[object, Members]:
    """Give the nodes of each kind that see the weights, or may."""
    if need.path is None:
        return {}
    found: dict[object, Members] = {}
    for opening in rooms.reach(need.path):
        known = found.get(opening.kind, frozenset())
        found[opening.kind] = None if known is None or opening.members is None else known | opening.members
    return found


def _room(shelf: Shelf, need: Need, among: Members, classes: tuple[str, ...]) -> Iterator[_Batch]:
    """Judge the nodes of one shelf by what is left of them."""
    entries = shelf.entries if among is None else [entry for entry in shelf.entries if entry[2] in among]
    possible = classes_of(need, classes)
    if need.devices and not any(_has_free(shelf, name, need) for name in possible):
        yield _batch(Constraint.DEVICES_BUSY, entries)
        return
    strong = shelf.with_cores(need, entries)
    yield _batch(Constraint.CORES, entries[strong:])
    entries = entries[:strong]
    fitting = shelf.with_memory(need, entries)
    if len(fitting) < len(entries):
        there = set(fitting)
        yield _Batch(
            Constraint.MEMORY,
            told_of(Constraint.MEMORY, ""),
            len(entries) - len(fitting),
            (entry[2] for entry in entries if entry not in there),
        )
    yield _Batch(Constraint.FABRIC, told_of(Constraint.FABRIC, "fits"), len(fitting), _names(fitting))


def _has_free(shelf: Shelf, device_class: str | None, need: Need) -> bool:
    at = None if device_class is None else shelf.kind.place_of(device_class)
    return at is not None and shelf.free[at] >= need.devices


def _batch(constraint: Constraint, entries: list[Entry]) -> _Batch:
    return _Batch(constraint, told_of(constraint, ""), len(entries), _names(entries))


def _names(entries: list[Entry]) -> Iterator[str]:
    return (entry[2] for entry in entries)


def _without(nodes: Iterable[str], others: AbstractSet[str]) -> Iterator[str]:
    return (node for node in nodes if node not in others)
