"""What a plan worker has yet to be told of a fleet.

A fleet of 10,000 nodes is told once; after that only what differs, so that a plan costs the control plane's loop next
to nothing.
"""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from llmgw.core.snapshot import NodeSnapshot, Snapshot
from llmgw.server.plan_messages import Changed, Gone, Parts

CHUNK = 100
"""Values in one message: making one takes a few milliseconds."""

V = TypeVar("V")


class Told:
    """What one worker was told last."""

    def __init__(self) -> None:
        self._parts = Parts()
        self._doubtful: frozenset[str] | None = None

    def differs(self, snapshot: Snapshot) -> bool:
        """True when a plan for `snapshot` could be another than for what was told, time aside."""
        return self._doubtful != snapshot.doubtful or next(self._look(snapshot), None) is not None

    def news(self, snapshot: Snapshot) -> Iterator[Changed | Gone]:
        """Give what the worker has to be told before it is asked, in small pieces, each noted once it was given."""
        for message in self._look(snapshot):
            yield message
            self._parts.take_in(message)
        self._doubtful = snapshot.doubtful

    def _look(self, snapshot: Snapshot) -> Iterator[Changed | Gone]:
        told = self._parts
        nodes = [seen for seen in snapshot.nodes if not _is_same(told.nodes.get(seen.node.id), seen)]
        models = [seen for seen in snapshot.models if told.models.get(seen.model.name) != seen]
        replicas = [replica for replica in snapshot.replicas if told.replicas.get(replica.id) is not replica]
        gone = Gone(
            nodes=_gone(told.nodes, [seen.node.id for seen in snapshot.nodes]),
            models=_gone(told.models, [seen.model.name for seen in snapshot.models]),
            replicas=_gone(told.replicas, [replica.id for replica in snapshot.replicas]),
        )
        if gone != Gone():
            yield gone
        for some_nodes in _chunks(nodes):
            yield Changed(nodes=some_nodes)
        for some_models in _chunks(models):
            yield Changed(models=some_models)
        for some_replicas in _chunks(replicas):
            yield Changed(replicas=some_replicas)


def _is_same(told: NodeSnapshot | None, seen: NodeSnapshot) -> bool:
    """True when a node looks the same to the planner. Rows are compared by identity: equal ones are not made anew."""
    return (
        told is not None
        and told.node is seen.node
        and told.state is seen.state
        and (told.reports is None) == (seen.reports is None)
        and told.settling == seen.settling
    )


def _gone(told: Mapping[str, object], there: list[str]) -> tuple[str, ...]:
    return tuple(told.keys() - there) if told else ()


def _chunks(values: list[V]) -> Iterator[tuple[V, ...]]:
    for start in range(0, len(values), CHUNK):
        yield tuple(values[start : start + CHUNK])
