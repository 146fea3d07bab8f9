"""Where one replica goes: all of its shards or none, on one fabric, with equal devices of one class per node."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from heapq import nsmallest
from itertools import islice
from typing import NamedTuple

from llmgw.core.feasible import Group, Rooms
from llmgw.core.fit import Need, classes_of
from llmgw.core.offer import MILLI
from llmgw.core.rank import Rank, block_rank, node_rank
from llmgw.schema.device import Device
from llmgw.schema.plan import Allocation


class _Choice(NamedTuple):
    """One way to place a replica; the smallest is best."""

    losses: tuple[int, ...]
    others: int
    """Nodes of the fabric that would have fitted too: the tightest fabric is taken first."""
    ranks: tuple[Rank, ...]
    device_class: str
    fabric: str


def place(rooms: Rooms, need: Need, same_model: Mapping[str, int]) -> tuple[Allocation, ...] | None:
    """Give one allocation per shard in rank order, or `None` when the replica fits nowhere as a whole.

    `same_model` counts the model's replicas per node. Nothing is claimed.
    """
    choices = (
        _choose(rooms, need, same_model, device_class, fabric)
        for device_class in classes_of(need, rooms.classes)
        for fabric in _fabrics(rooms, need)
    )
    best = min((choice for choice in choices if choice is not None), default=None)
    if best is None:
        return None
    nodes = sorted(rank.node for rank in best.ranks)
    return tuple(_allocation(rooms, need, node, best) for node in nodes)


def _fabrics(rooms: Rooms, need: Need) -> tuple[str | None, ...]:
    """A replica on several nodes needs a fabric to itself to talk over; one on a single node only what it asks."""
    if need.fabric is not None or need.nodes == 1:
        return (need.fabric,)
    return rooms.fabrics


def _choose(
    rooms: Rooms, need: Need, same_model: Mapping[str, int], device_class: str | None, fabric: str | None
) -> _Choice | None:
    groups = tuple(rooms.candidates(need, device_class, fabric))
    fitting = sum(len(group.nodes) for group in groups)
    if fitting < need.nodes:
        return None
    ranked = (rank for group in groups for rank in _ranked(group, need, same_model, device_class))
    best = nsmallest(need.nodes, ranked)
    return _Choice(
        losses=tuple(sum(terms) for terms in zip(*(rank.block for rank in best), strict=True)),
        others=fitting - need.nodes if need.nodes > 1 else 0,
        ranks=tuple(best),
        device_class=device_class or "",
        fabric=fabric or "",
    )


def _ranked(group: Group, need: Need, same_model: Mapping[str, int], device_class: str | None) -> Iterator[Rank]:
    """Rank the best few nodes of a group: those with a replica of the model one by one, of the rest the first ids."""
    block = block_rank(group.kind, group.spare, need, device_class)
    fresh = (node for node in group.nodes if node not in same_model)
    for node in islice(fresh, need.nodes):
        yield node_rank(block, group.spare, same_model=0, node=node)
    for node, count in same_model.items():
        if _holds(group, node):
            yield node_rank(block, group.spare, same_model=count, node=node)


def _holds(group: Group, node: str) -> bool:
    at = bisect_left(group.nodes, node)
    return at < len(group.nodes) and group.nodes[at] == node


def _allocation(rooms: Rooms, need: Need, node: str, choice: _Choice) -> Allocation:
    devices = _pick(rooms.free_devices(node, choice.device_class), need.devices) if need.devices else ()
    return Allocation(
        node=node,
        cores=need.milli_cores / MILLI or None,
        memory_bytes=need.memory_bytes or None,
        devices=tuple(device.id for device in devices),
        fabric=choice.fabric or None,
    )


def _pick(free: tuple[Device, ...], count: int) -> tuple[Device, ...]:
    """Take devices of one NUMA node where one has enough, the one with the fewest; else the first by index."""
    islands: dict[int, list[Device]] = {}
    for device in free:
        if device.numa_node is not None:
            islands.setdefault(device.numa_node, []).append(device)
    enough = [(len(devices), numa) for numa, devices in islands.items() if len(devices) >= count]
    chosen = islands[min(enough)[1]] if enough else free
    return tuple(chosen[:count])
