"""Registration: what agents say of their nodes, and their silence, as rows. Loads are not stored."""

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from llmgw.core.node_lifecycle import next_reachability
from llmgw.ports import AppendEvent, PutNode, Write
from llmgw.schema.event import Event, Severity
from llmgw.schema.node import Node, NodeFacts, Reachability
from llmgw.schema.value import Value
from llmgw.schema.weights import Storage
from llmgw.server.live import Live

DISK_STEP = 64
"""Free disk is stored anew once it moved by a 64th of the disk: logs that grow must not write the store all day."""


class Silence(Value, frozen=True, kw_only=True):
    """When silence means something. `leading_since` is monotonic seconds: nobody was heard before."""

    unreachable_after_s: float
    lost_after_s: float
    leading_since: float
    grace_s: float = 60.0
    """After a change of leader no node may be declared lost for so long (Nomad's lesson, facts on availability)."""


def registrations(
    nodes: tuple[Node, ...], live: tuple[Live, ...], *, silence: Silence, now: datetime, monotonic: float
) -> tuple[Write, ...]:
    """Give the writes that bring the node rows up to what was heard; none where they say it already."""
    heard = {one.node: one for one in live}
    known = {node.id for node in nodes}
    writes: list[Write] = []
    for one in live:
        if one.node not in known and one.connected:
            writes.extend(_register(one, now))
    for node in nodes:
        after = _brought_up(node, heard.get(node.id), silence, now, monotonic)
        if after != node:
            writes.append(PutNode(node=after))
            writes.extend(_tell(node, after, now))
    return tuple(writes)


def _register(live: Live, now: datetime) -> Iterator[Write]:
    node = Node(id=live.node, facts=live.facts, reachability_since=now, registered_at=now)
    yield PutNode(node=node)
    yield _event(now, "node.registered", Severity.INFO, f"node {node.id} ({node.facts.hostname}) joined", node.id)


def _brought_up(node: Node, live: Live | None, silence: Silence, now: datetime, monotonic: float) -> Node:
    reachability = _reachability(node, live, silence, monotonic)
    if reachability is not node.reachability:
        node = replace(node, reachability=reachability, reachability_since=now)
    if live is not None and live.connected and facts_differ(node.facts, live.facts):
        node = replace(node, facts=live.facts)
    return node


def _reachability(node: Node, live: Live | None, silence: Silence, monotonic: float) -> Reachability:
    heard_at = silence.leading_since if live is None else live.heard_at
    return next_reachability(
        node,
        silence_s=monotonic - heard_at,
        unreachable_after_s=silence.unreachable_after_s,
        lost_after_s=silence.lost_after_s,
        may_lose=monotonic - silence.leading_since >= silence.grace_s,
        heard=live is not None,
    )


def facts_differ(stored: NodeFacts, said: NodeFacts) -> bool:
    """True when facts changed beyond free disk that moved a little."""
    if stored == said:
        return False
    if _without_free(stored) != _without_free(said):
        return True
    pairs = zip(stored.storage or (), said.storage or (), strict=True)
    return any(_moved(before, after) for before, after in pairs)


def _without_free(facts: NodeFacts) -> NodeFacts:
    if facts.storage is None:
        return facts
    return replace(facts, storage=tuple(replace(storage, free_bytes=None) for storage in facts.storage))


def _moved(before: Storage, after: Storage) -> bool:
    if before.free_bytes is None or after.free_bytes is None or after.total_bytes is None:
        return before.free_bytes != after.free_bytes
    return abs(before.free_bytes - after.free_bytes) * DISK_STEP >= after.total_bytes


def _tell(before: Node, after: Node, now: datetime) -> Iterator[Write]:
    if before.reachability is after.reachability:
        return
    match after.reachability:
        case Reachability.CONNECTED:
            yield _event(now, "node.connected", Severity.INFO, f"node {after.id} is back", after.id)
        case Reachability.UNREACHABLE:
            message = f"the agent of node {after.id} is silent; its engines keep their traffic"
            yield _event(now, "node.unreachable", Severity.WARNING, message, after.id)
        case Reachability.LOST:
            message = f"node {after.id} is lost: its replicas may be replaced"
            yield _event(now, "node.lost", Severity.ERROR, message, after.id)


def _event(now: datetime, kind: str, severity: Severity, message: str, node: str) -> AppendEvent:
    return AppendEvent(event=Event(at=now, kind=kind, severity=severity, message=message, node=node))
