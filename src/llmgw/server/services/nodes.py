"""Nodes: machines with an agent."""

from collections.abc import Mapping

from llmgw.core.inventory import NOTHING, Held, held_by_node, left_over
from llmgw.core.node_lifecycle import flaps, is_settling, settles_at, shown_state
from llmgw.ports import Clock, FleetRows
from llmgw.schema.admin.node import FreeRow, HeldRow, NodeRow
from llmgw.schema.errors import NotFound
from llmgw.schema.node import Node
from llmgw.server.fleet import Fleet
from llmgw.server.live import Live


def all_nodes(fleet: Fleet, clock: Clock) -> tuple[NodeRow, ...]:
    """Give all nodes by id."""
    held, running = held_by_node(fleet.rows.replicas), _running(fleet)
    return tuple(
        _row(node, held.get(node.id, NOTHING), running.get(node.id, ()), fleet.node_live(node.id), clock)
        for node in fleet.rows.nodes
    )


def one_node(fleet: Fleet, clock: Clock, node_id: str) -> NodeRow:
    """Give one node. Raises `NotFound`."""
    for row in all_nodes(fleet, clock):
        if row.id == node_id:
            return row
    raise _not_found(node_id)


def find(rows: FleetRows, node_id: str) -> Node:
    """Give a node as stored. Raises `NotFound`."""
    for node in rows.nodes:
        if node.id == node_id:
            return node
    raise _not_found(node_id)


def _not_found(node_id: str) -> NotFound:
    return NotFound(f"there is no node {node_id!r}", hint="llmgw ctl node list shows those there are")


def _running(fleet: Fleet) -> Mapping[str, tuple[str, ...]]:
    """Give the ids of the replicas with a shard on each node."""
    running: dict[str, tuple[str, ...]] = {}
    for replica in fleet.rows.replicas:
        for node_id in {shard.allocation.node for shard in replica.shards}:
            running[node_id] = (*running.get(node_id, ()), replica.id)
    return running


def _row(node: Node, held: Held, replicas: tuple[str, ...], live: Live | None, clock: Clock) -> NodeRow:
    left = left_over(node, held)
    return NodeRow(
        id=node.id,
        state=shown_state(node),
        intent=node.intent,
        intent_reason=node.intent_reason,
        reachability=node.reachability,
        reachability_since=node.reachability_since,
        replacement=node.replacement,
        flaps=flaps(node, clock.now()),
        settles_at=settles_at(node) if is_settling(node, clock.now()) else None,
        registered_at=node.registered_at,
        connected=live is not None and live.connected,
        load=live.fresh_load(clock.monotonic()) if live is not None else None,
        held=HeldRow(cores=held.cores, memory_bytes=held.memory_bytes, devices=tuple(sorted(held.devices))),
        free=FreeRow(
            cores=left.cores, memory_bytes=left.memory_bytes, devices=tuple(device.id for device in left.devices)
        ),
        replicas=replicas,
        facts=node.facts,
    )
