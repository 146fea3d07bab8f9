"""Alarms: what about nodes needs an operator's eye now. Recomputed from the snapshot: none outlives its cause."""

from collections.abc import Iterator
from datetime import datetime

from llmgw.core.mass_protection import away_together, sentence
from llmgw.core.node_lifecycle import FLAPPING, flaps
from llmgw.core.snapshot import Snapshot
from llmgw.schema.node import Node, Replacement
from llmgw.schema.summary import Alarm, AlarmKind


def alarms(snapshot: Snapshot) -> tuple[Alarm, ...]:
    """Give all alarms: first what concerns many nodes, then by node. A crowd is one, whatever groups it struck."""
    nodes = sorted((seen.node for seen in snapshot.nodes), key=lambda node: node.id)
    return (*_crowd(nodes), *(alarm for node in nodes for alarm in _of(node, snapshot.now)))


def _crowd(nodes: list[Node]) -> Iterator[Alarm]:
    crowd = away_together(nodes)
    if crowd is not None:
        yield Alarm(kind=AlarmKind.REPLACEMENT_HELD, text=sentence(crowd))


def _of(node: Node, now: datetime) -> Iterator[Alarm]:
    if node.replacement is Replacement.SERVING:
        text = f"node {node.id} serves, but its agent does not report: it is not replaced; look at its agent"
        yield Alarm(kind=AlarmKind.SERVES_UNREPORTED, text=text, node=node.id)
    for problem in node.facts.problems:
        yield Alarm(kind=AlarmKind.DISK_FULL, text=f"node {node.id}: {problem}", node=node.id)
    if (count := flaps(node, now)) >= FLAPPING:
        text = f"node {node.id} fell silent {count} times within ten minutes; look at its network and its agent"
        yield Alarm(kind=AlarmKind.FLAPPING, text=text, node=node.id)
