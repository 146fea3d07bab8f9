"""Inventory: what is taken on each node and what is left of it.

A replica holds its allocations as long as its row exists, whatever its state: an engine that is being stopped
still has its memory, and a failed replica starts again where it was.
"""

from collections.abc import Iterable
from math import fsum

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
    return Free(
        cores=None if cores is None else max(0.0, cores - taken.cores),
        memory_bytes=None if memory is None else max(0, memory - taken.memory_bytes),
        devices=tuple(d for d in node.facts.devices if d.problem is None and d.id not in taken.devices),
    )


def _sum(allocations: list[Allocation]) -> Held:
    return Held(
        cores=fsum(a.cores or 0.0 for a in allocations),  # exact, so that the order of rows cannot matter
        memory_bytes=sum(a.memory_bytes or 0 for a in allocations),
        devices=frozenset(device for a in allocations for device in a.devices),
    )
