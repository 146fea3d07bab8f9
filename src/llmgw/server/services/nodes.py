"""Nodes: machines with an agent."""

from collections.abc import Mapping, Sequence

from llmgw.core.inventory import NOTHING, Held, held_by_node, left_over
from llmgw.core.node_lifecycle import flaps, is_settling, settles_at, shown_state
from llmgw.ports import Clock, FleetRows
from llmgw.schema.admin.node import FreeRow, HeldRow, NodeRow, NodeShard
from llmgw.schema.errors import NotFound
from llmgw.schema.node import Node, Reachability
from llmgw.schema.replica import Replica, Shard
from llmgw.schema.report import Load
from llmgw.server.fleet import Fleet
from llmgw.server.live import Live


def all_nodes(fleet: Fleet, clock: Clock) -> tuple[NodeRow, ...]:
    """Give all nodes by id."""
    held, placed = held_by_node(fleet.rows.replicas), _placed(fleet)
    return tuple(
        _row(node, held.get(node.id, NOTHING), placed.get(node.id, ()), fleet, clock) for node in fleet.rows.nodes
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


def _placed(fleet: Fleet) -> Mapping[str, tuple[tuple[Replica, Shard], ...]]:
    """Give the shards placed on each node."""
    placed: dict[str, list[tuple[Replica, Shard]]] = {}
    for replica in fleet.rows.replicas:
        for shard in replica.shards:
            placed.setdefault(shard.allocation.node, []).append((replica, shard))
    return {node: tuple(shards) for node, shards in placed.items()}


def _is_connected(node: Node, live: Live | None, *, leading: bool) -> bool:
    """Say whether its agent is connected; a standby, which hears no agent, goes by what the leader stored."""
    if live is not None:
        return live.connected
    return not leading and node.reachability is Reachability.CONNECTED


def _row(node: Node, held: Held, placed: Sequence[tuple[Replica, Shard]], fleet: Fleet, clock: Clock) -> NodeRow:
    left, live, load = left_over(node, held), fleet.node_live(node.id), fleet.fresh_load(node.id)
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
        connected=_is_connected(node, live, leading=fleet.is_leader()),
        load=load,
        held=HeldRow(cores=held.cores, memory_bytes=held.memory_bytes, devices=tuple(sorted(held.devices))),
        free=FreeRow(
            cores=left.cores, memory_bytes=left.memory_bytes, devices=tuple(device.id for device in left.devices)
        ),
        replicas=tuple(dict.fromkeys(replica.id for replica, _ in placed)),
        shards=_shards(placed, load),
        facts=node.facts,
    )


def _shards(placed: Sequence[tuple[Replica, Shard]], load: Load | None) -> tuple[NodeShard, ...]:
    return tuple(
        NodeShard(
            shard=shard.id,
            replica=replica.id,
            model=replica.model,
            phase=shard.phase,
            load=load.of(shard.id) if load is not None else None,
        )
        for replica, shard in sorted(placed, key=lambda one: (one[0].model, one[1].id))
    )
