"""Intent of a node: what its operator wants of it. Nothing else changes it but a drain that is over."""

from collections.abc import Iterable

from msgspec.structs import replace

from llmgw.schema.node import Intent, Node, Reachability
from llmgw.schema.replica import Replica

DRAINED = "drained"
"""Reason of a cordon that a finished drain leaves."""


def with_intent(node: Node, intent: Intent, reason: str | None) -> Node:
    """Give the node as its operator wants it from now on."""
    return replace(node, intent=intent, intent_reason=reason if intent is not Intent.NONE else None)


def drained(nodes: Iterable[Node], replicas: Iterable[Replica]) -> tuple[Node, ...]:
    """Give the draining nodes on which nothing is left, as the cordoned ones they become.

    A replica's row goes only when its engine is proven gone, so a node without rows is empty. A silent one waits: what
    ran there is not proven gone but given up.
    """
    draining = [
        node for node in nodes if node.intent is Intent.DRAINING and node.reachability is Reachability.CONNECTED
    ]
    if not draining:
        return ()
    used = {shard.allocation.node for replica in replicas for shard in replica.shards}
    return tuple(with_intent(node, Intent.CORDONED, DRAINED) for node in draining if node.id not in used)
