"""Registration: what agents say of their nodes, and their silence, as rows. Loads are not stored."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from msgspec.structs import replace

from llmgw.core.mass_protection import away_together, sentence
from llmgw.core.node_lifecycle import FLAPPING, Evidence, Limits, flaps, judge
from llmgw.ports import AppendEvent, PutNode, Write
from llmgw.schema.event import Event, Severity
from llmgw.schema.node import Node, NodeFacts, Reachability, Replacement
from llmgw.schema.value import Value
from llmgw.schema.weights import Storage
from llmgw.server.live import Live

NO_WAIT: Mapping[str, float] = {}
NO_WAITS: Mapping[str, Mapping[str, float]] = {}
DISK_STEP = 64
"""Free disk is stored anew once it moved by a 64th of the disk: logs that grow must not write the store all day."""


class Silence(Value, frozen=True, kw_only=True):
    """When silence means something. `leading_since` is hearing time: nobody was heard before."""

    unreachable_after_s: float
    lost_after_s: float
    leading_since: float
    grace_s: float = 60.0
    """See `core.node_lifecycle.Limits`."""

    def limits(self) -> Limits:
        """Give it as the core's limits."""
        return Limits(
            unreachable_after_s=self.unreachable_after_s, lost_after_s=self.lost_after_s, grace_s=self.grace_s
        )


def registrations(
    nodes: tuple[Node, ...],
    live: tuple[Live, ...],
    *,
    silence: Silence,
    now: datetime,
    hearing: float,
    answering: frozenset[str] = frozenset(),
    waits: Mapping[str, Mapping[str, float]] = NO_WAITS,
) -> tuple[Write, ...]:
    """Give the writes that bring the node rows up to what was heard; none where they say it already.

    `hearing` is the hearing time now; `answering` names nodes whose engines answered requests lately;
    `waits` has by silent node the models there and the seconds of silence they bear.
    """
    heard = {one.node: one for one in live}
    known = {node.id for node in nodes}
    writes: list[Write] = []
    for one in live:
        if one.node not in known and one.connected:
            writes.extend(_register(one, now))
    evidence = {
        node.id: _evidence(
            heard.get(node.id), silence, hearing, serves=node.id in answering, waits=waits.get(node.id, NO_WAIT)
        )
        for node in nodes
    }
    judged = judge(nodes, evidence, limits=silence.limits(), leading_s=hearing - silence.leading_since, now=now)
    for before, decided in zip(nodes, judged, strict=True):
        after = _with_facts(decided, heard.get(before.id))
        if after != before:
            writes.append(PutNode(node=after))
            writes.extend(_tell(before, after, now))
    writes.extend(_tell_of_crowds(nodes, judged, now))
    return tuple(writes)


def _register(live: Live, now: datetime) -> Iterator[Write]:
    node = Node(id=live.node, facts=live.facts, reachability_since=now, registered_at=now)
    yield PutNode(node=node)
    yield _event(now, "node.registered", Severity.INFO, f"node {node.id} ({node.facts.hostname}) joined", node.id)


def _evidence(
    live: Live | None, silence: Silence, hearing: float, *, serves: bool, waits: Mapping[str, float]
) -> Evidence:
    heard_at = silence.leading_since if live is None else live.heard_at
    return Evidence(silence_s=hearing - heard_at, heard=live is not None, serves=serves, waits=waits)


def _with_facts(node: Node, live: Live | None) -> Node:
    if live is not None and live.connected and facts_differ(node.facts, live.facts):
        return replace(node, facts=live.facts)
    return node


def facts_differ(stored: NodeFacts, said: NodeFacts) -> bool:
    """True when facts changed beyond free disk that moved a little."""
    if stored is said or stored == said:
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
    if before.reachability is not after.reachability:
        yield _moved_to(after, now)
    elif after.reachability is Reachability.LOST and before.spared != after.spared:
        given_up = ", ".join(sorted(set(before.spared) - set(after.spared)))
        message = f"node {after.id} is still lost: replicas of {given_up} may be replaced too"
        yield _event(now, "node.lost", Severity.ERROR, message, after.id)
    if flaps(before, now) < FLAPPING <= flaps(after, now):
        message = f"node {after.id} fell silent {FLAPPING} times within ten minutes; look at its network and its agent"
        yield _event(now, "node.flapping", Severity.ERROR, message, after.id)
    if after.replacement is Replacement.SERVING is not before.replacement:
        message = f"node {after.id} serves, but its agent does not report: it is not replaced; look at its agent"
        yield _event(now, "node.serves_unreported", Severity.ERROR, message, after.id)


def _moved_to(node: Node, now: datetime) -> Write:
    match node.reachability:
        case Reachability.CONNECTED:
            return _event(now, "node.connected", Severity.INFO, f"node {node.id} is back", node.id)
        case Reachability.UNREACHABLE:
            message = f"the agent of node {node.id} is silent; its engines keep their traffic"
            return _event(now, "node.unreachable", Severity.WARNING, message, node.id)
        case Reachability.LOST:
            but = f", but those of {', '.join(node.spared)}, which wait longer" if node.spared else ""
            message = f"node {node.id} is lost: its replicas may be replaced{but}"
            return _event(now, "node.lost", Severity.ERROR, message, node.id)


def _tell_of_crowds(before: tuple[Node, ...], after: tuple[Node, ...], now: datetime) -> Iterator[Write]:
    """Tell once that replacement is off, whatever groups were struck and however many nodes follow."""
    was, crowd = away_together(before), away_together(after)
    if crowd is not None and was is None:
        yield _event(now, "fleet.replacement_held", Severity.ERROR, sentence(crowd), None)
    if was is not None and crowd is None:
        message = "the nodes that fell silent together are back, or released: replacement goes on"
        yield _event(now, "fleet.replacement_resumed", Severity.INFO, message, None)


def _event(now: datetime, kind: str, severity: Severity, message: str, node: str | None) -> AppendEvent:
    return AppendEvent(event=Event(at=now, kind=kind, severity=severity, message=message, node=node))
