"""Where one replica goes: all of its shards or none, on one fabric, with equal devices of one class per node."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from llmgw.core.feasible import Group, Rooms
from llmgw.core.fit import Need, classes_of
from llmgw.core.offer import MILLI
from llmgw.core.rank import Beside, BlockRank, Rank, rank
from llmgw.schema.device import Device
from llmgw.schema.plan import Allocation


class _Asked(NamedTuple):
    """One question."""

    rooms: Rooms
    need: Need
    beside: Beside


class _Choice(NamedTuple):
    """One way to place a replica; the smallest is best."""

    losses: tuple[int, ...]
    others: int
    """Nodes of the fabric that would have fitted too: the tightest fabric is taken first."""
    ranks: tuple[Rank, ...]
    device_class: str
    fabric: str


def place(rooms: Rooms, need: Need, beside: Beside) -> tuple[Allocation, ...] | None:
    """Give one allocation per shard in rank order, or `None` when the replica fits nowhere as a whole.

    Nothing is claimed.
    """
    asked = _Asked(rooms, need, beside)
    best: _Choice | None = None
    for device_class in classes_of(need, rooms.classes):
        for fabric in _fabrics(rooms, need):
            choice = _choose(asked, device_class, fabric)
            if choice is not None and (best is None or choice < best):
                best = choice
    if best is None:
        return None
    nodes = sorted([one.node for one in best.ranks])
    return tuple([_allocation(rooms, need, node, best) for node in nodes])


def _fabrics(rooms: Rooms, need: Need) -> tuple[str | None, ...]:
    """A replica on several nodes needs a fabric to itself to talk over; one on a single node only what it asks."""
    if need.fabric is not None or need.nodes == 1:
        return (need.fabric,)
    return rooms.fabrics


def _choose(asked: _Asked, device_class: str | None, fabric: str | None) -> _Choice | None:
    groups, wanted = asked.rooms.groups(asked.need, device_class, fabric), asked.need.nodes
    if wanted > 1 and wanted > sum([len(group.shelf.entries) for alike in groups.values() for group in alike]):
        return None
    best: list[Rank] = []
    for block in sorted(groups):
        best += _best(asked, groups[block], block, wanted - len(best))
        if len(best) == wanted:
            break
    else:
        return None
    return _Choice(
        losses=best[0].block if wanted == 1 else tuple(map(sum, zip(*[one.block for one in best], strict=True))),
        others=_fitting(asked.need, groups.values()) - wanted if wanted > 1 else 0,
        ranks=tuple(best),
        device_class=device_class or "",
        fabric=fabric or "",
    )


def _best(asked: _Asked, alike: list[Group], block: BlockRank, wanted: int) -> list[Rank]:
    """Rank the best nodes of groups whose choice costs the fleet the same: those without a replica of the model first.

    Of each group the first few that fit suffice, since it is in order but for the failures, and each of those can
    push one node back.
    """
    need, beside = asked.need, asked.beside
    few = wanted + len(beside.failures)
    found = [
        rank(block, entry, beside)
        for group in alike
        for entry in islice(group.shelf.fitting(need, group.members, beside.replicas), few)
    ]
    if len(found) < wanted and beside.replicas:
        found.extend(_shared(asked, alike, block))
    found.sort()
    return found[:wanted]


def _shared(asked: _Asked, alike: list[Group], block: BlockRank) -> Iterator[Rank]:
    for node in asked.beside.replicas:
        shelf, entry = asked.rooms.place_of(node)
        for group in alike:
            is_member = group.shelf is shelf and (group.members is None or node in group.members)
            if is_member and shelf.fits(entry, asked.need):
                yield rank(block, entry, asked.beside)


def _fitting(need: Need, groups: Iterable[list[Group]]) -> int:
    return sum(sum(1 for _ in group.shelf.fitting(need, group.members, ())) for alike in groups for group in alike)


def _allocation(rooms: Rooms, need: Need, node: str, choice: _Choice) -> Allocation:
    devices = _pick(rooms.free_devices(node, choice.device_class), need.devices) if need.devices else []
    return Allocation(
        node=node,
        cores=need.milli_cores / MILLI or None,
        memory_bytes=need.memory_bytes or None,
        devices=tuple([device.id for device in devices]),
        fabric=choice.fabric or None,
    )


def _pick(free: list[Device], count: int) -> list[Device]:
    """Take devices of one NUMA node where one has enough, the one with the fewest; else the first by index."""
    islands: dict[int, list[Device]] = {}
    for device in free:
        numa = device.numa_node
        if numa is not None:
            if numa in islands:
                islands[numa].append(device)
            else:
                islands[numa] = [device]
    enough = [(len(devices), numa) for numa, devices in islands.items() if len(devices) >= count]
    chosen = islands[min(enough)[1]] if enough else free
    return chosen[:count]
