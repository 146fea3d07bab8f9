"""Inventory: what is taken on each node and what is left of it.

A replica holds its allocations as long as its row exists, whatever its state: an engine that is being stopped
still has its memory, and a failed replica starts again where it was.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from math import fsum

import msgspec

from llmgw.schema.device import Device
from llmgw.schema.node import Node
from llmgw.schema.plan import Allocation
from llmgw.schema.replica import Replica
from llmgw.schema.value import Value


class Held(Value, frozen=True, kw_only=True):
    """What shards hold on one node."""

    cores: float = 0.0
    memory_bytes: int = 0
    devices: frozenset[str] = frozenset()
    """Device ids."""


class Free(Value, frozen=True, kw_only=True):
    """What is left on one node. `None` is unknown, which is neither free nor full."""

    cores: float | None
    memory_bytes: int | None
    devices: tuple[Device, ...]
    """Healthy devices that nobody holds."""


NOTHING = Held()


def schedulable(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """Give the devices that can be handed out: of those that share one memory only the first by index.

    Counting each would sell that memory twice. The one stands for all: a fault or a foreign process of any is its own.
    """
    for device in devices:
        if device.pool is not None:
            return _firsts(devices)
    return devices


def owners(devices: tuple[Device, ...]) -> dict[str, str]:
    """Map each device's id to that of the one that stands for its memory; its own where it shares none."""
    by_pool = {device.pool: device.id for device in schedulable(devices) if device.pool is not None}
    return {device.id: by_pool[device.pool] if device.pool is not None else device.id for device in devices}


def held(node_id: str, replicas: Iterable[Replica]) -> Held:
    """Sum what the shards on one node hold."""
    return held_by_node(replicas).get(node_id, NOTHING)


def free(node: Node, replicas: Iterable[Replica]) -> Free:
    """Give what is left on one node."""
    return left_over(node, held(node.id, replicas))


def held_by_node(replicas: Iterable[Replica]) -> dict[str, Held]:
    """Sum what shards hold, node by node, in one pass."""
    by_node: dict[str, list[Allocation]] = {}
    for replica in replicas:
        for shard in replica.shards:
            by_node.setdefault(shard.allocation.node, []).append(shard.allocation)
    return {node: _sum(allocations) for node, allocations in by_node.items()}


def left_over(node: Node, taken: Held) -> Free:
    """Give what is left of a node of which `taken` is held."""
    cores, memory = node.facts.host.cores_usable, node.facts.memory_bytes
    holding = owned(node.facts.devices, taken.devices)
    return Free(
        cores=None if cores is None else max(0.0, cores - taken.cores),
        memory_bytes=None if memory is None else max(0, memory - taken.memory_bytes),
        devices=tuple(d for d in schedulable(node.facts.devices) if d.problem is None and d.id not in holding),
    )


def owned(devices: tuple[Device, ...], held: AbstractSet[str]) -> AbstractSet[str]:
    """Give the devices that stand for those held: the same ones where none share memory."""
    if all(device.pool is None for device in devices):
        return held
    owner = owners(devices)
    return {owner[name] for name in held if name in owner}


def _firsts(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    firsts: dict[str, Device] = {}
    for device in sorted(devices, key=lambda device: (device.index, device.id)):
        if device.pool is not None:
            first = firsts.setdefault(device.pool, device)
            if first.problem is None and device.problem is not None:
                firsts[device.pool] = msgspec.structs.replace(first, problem=device.problem)
    chosen = {first.id: first for first in firsts.values()}
    return tuple(chosen.get(d.id, d) for d in devices if d.pool is None or d.id in chosen)


def _sum(allocations: list[Allocation]) -> Held:
    return Held(
        cores=fsum(a.cores or 0.0 for a in allocations),  # exact, so that the order of rows cannot matter
        memory_bytes=sum(a.memory_bytes or 0 for a in allocations),
        devices=frozenset(device for a in allocations for device in a.devices),
    )
