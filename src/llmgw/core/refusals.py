"""Why a replica fits nowhere: all nodes' first constraints counted without asking each, and some nodes in full.

In a small fleet every node is told; in a large one the closest few, since a list of thousands helps nobody and each
short model would carry one.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from llmgw.core.feasible import Members, Rooms
from llmgw.core.fit import Need, classes_of
from llmgw.core.offer import Kind
from llmgw.core.plan_text import LACKS, RANK, told_of
from llmgw.core.shelf import Entry, Shelf
from llmgw.schema.plan import Constraint, RefusalCount, Rejection

SMALL = 20
"""Up to so many nodes all are told in full."""
CLOSEST = 3
"""Of more so many are."""
FULL, WEAK, SHORT = (told_of(c, "") for c in (Constraint.DEVICES_BUSY, Constraint.CORES, Constraint.MEMORY))
ALONE = told_of(Constraint.FABRIC, "fits")


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
    nodes: Callable[[], Iterable[str]]
    """Names them: of most batches nobody asks."""


def refused(rooms: Rooms, need: Need) -> Refused:
    """Tell why no node takes a shard of a replica, or why too few do."""
    batches = list(_batches(rooms, need))
    totals: dict[tuple[Constraint, str], int] = {}
    for batch in batches:
        key = batch.constraint, batch.text
        totals[key] = totals.get(key, 0) + batch.size
    order = sorted(totals.items(), key=_commonest) if len(totals) > 1 else totals.items()
    counts = tuple([RefusalCount(constraint=c, text=text, nodes=count) for (c, text), count in order])
    return Refused(counts, tuple([rooms.rejection(node, need) for node in _told(rooms, batches)]))


def _commonest(total: tuple[tuple[Constraint, str], int]) -> tuple[int, int, str]:
    (constraint, text), count = total
    return -count, RANK[constraint], text


def _told(rooms: Rooms, batches: list[_Batch]) -> list[str]:
    if len(rooms.ledgers) <= SMALL:
        return sorted(rooms.ledgers)
    closest = sorted(batches, key=_closest)
    return sorted(islice(chain.from_iterable(batch.nodes() for batch in closest), CLOSEST))


def _closest(batch: _Batch) -> tuple[int, str]:
    return -RANK[batch.constraint], batch.text


def _batches(rooms: Rooms, need: Need) -> Iterator[_Batch]:
    """Give the batches, empty ones left out."""
    reach, judged, possible = _reach(rooms, need), rooms.kind_refusals(need), classes_of(need, rooms.classes)
    for kind, size in rooms.sizes.items():
        why, why_after = judged[kind]
        if why is not None:
            yield _Batch(why.constraint, told_of(why.constraint, why.detail), size, partial(_of_kind, rooms, kind))
            continue
        seeing: Members = None if need.path is None else reach.get(kind, frozenset())
        there = size if seeing is None else len(seeing)
        if there < size:
            yield _Batch(Constraint.WEIGHTS, LACKS, size - there, partial(_blind, rooms, kind, seeing))
        if not there:
            continue
        if why_after is None:
            for shelf in rooms.shelves[kind].values():
                yield from _room(shelf, need, seeing, possible)
            continue
        nodes = partial(_of_kind, rooms, kind) if seeing is None else partial(sorted, seeing)
        yield _Batch(why_after.constraint, told_of(why_after.constraint, why_after.detail), there, nodes)


def _of_kind(rooms: Rooms, kind: Kind) -> Iterator[str]:
    return (entry[2] for shelf in rooms.shelves[kind].values() for entry in shelf.entries)


def _blind(rooms: Rooms, kind: Kind, seeing: Members) -> Iterator[str]:
    return (node for node in _of_kind(rooms, kind) if seeing is not None and node not in seeing)


def _reach(rooms: Rooms, need: Need) -> dict[object, Members]:
    """Give the nodes of each kind that see the weights, or may."""
    if need.path is None:
        return {}
    found: dict[object, Members] = {}
    for opening in rooms.reach(need.path):
        known = found.get(opening.kind, frozenset())
        found[opening.kind] = None if known is None or opening.members is None else known | opening.members
    return found


def _room(shelf: Shelf, need: Need, among: Members, possible: tuple[str | None, ...]) -> Iterator[_Batch]:
    """Judge the nodes of one shelf by what is left of them. `possible` are the classes that may meet the need."""
    entries = shelf.entries if among is None else [entry for entry in shelf.entries if entry[2] in among]
    if not entries:
        return
    if need.devices and not any(_has_free(shelf, name, need) for name in possible):
        yield _batch(Constraint.DEVICES_BUSY, FULL, entries)
        return
    strong = shelf.with_cores(need, entries)
    if strong < len(entries):
        yield _batch(Constraint.CORES, WEAK, entries[strong:])
        entries = entries[:strong]
    fitting = shelf.with_memory(need, entries)
    if len(fitting) < len(entries):
        there = set(fitting)
        yield _batch(Constraint.MEMORY, SHORT, [entry for entry in entries if entry not in there])
    if fitting:
        yield _batch(Constraint.FABRIC, ALONE, fitting)


def _has_free(shelf: Shelf, device_class: str | None, need: Need) -> bool:
    at = None if device_class is None else shelf.kind.place_of(device_class)
    return at is not None and shelf.free[at] >= need.devices


def _batch(constraint: Constraint, text: str, entries: list[Entry]) -> _Batch:
    return _Batch(constraint, text, len(entries), partial(_names, entries))


def _names(entries: list[Entry]) -> Iterator[str]:
    return (entry[2] for entry in entries)
