"""What earlier turns found, so that what did not change is not looked at again. It never changes a decision.

Rows and reports are never changed in place: whatever was derived from the very same objects is the same.
"""

from operator import is_

from llmgw.core.desired import desired_shards, digest
from llmgw.ports import FleetRows
from llmgw.schema.desired import DesiredShard
from llmgw.schema.model import Model
from llmgw.schema.node import NodeFacts
from llmgw.schema.replica import Replica, ReplicaState
from llmgw.schema.value import Value

Basis = tuple[object, ...]


class NodeSet(Value, frozen=True, kw_only=True):
    """The shards one node should run, and the digest of its whole set."""

    shards: tuple[DesiredShard, ...]
    digest: str


class Recall:
    """Kept from turn to turn by whoever runs them."""

    def __init__(self) -> None:
        self._resting: dict[str, Basis] = {}
        self._sets: dict[str, tuple[Basis, NodeSet]] = {}

    def rests(self, replica: Replica, basis: Basis) -> bool:
        """True when a step with the same `basis` left the replica as it was."""
        known = self._resting.get(replica.id)
        return known is not None and _same(known, basis)

    def note_rest(self, replica: Replica, basis: Basis) -> None:
        """Note that a step changed nothing. Only where time alone changes nothing either: ready, and proven."""
        if replica.state is ReplicaState.READY and replica.proven:
            self._resting[replica.id] = basis

    def node_sets(self, rows: FleetRows, models: dict[str, Model], watched: tuple[str, ...]) -> dict[str, NodeSet]:
        """Give the desired shards of each node. `models` have their profiles resolved."""
        facts = {node.id: node.facts for node in rows.nodes}
        placed = _by_node(rows.replicas)
        sets: dict[str, tuple[Basis, NodeSet]] = {}
        for node in facts:
            found = placed.get(node, [])
            basis = _basis(found, models, facts, watched)
            known = self._sets.get(node)
            if known is None or not _same(known[0], basis):
                shards = desired_shards(node, found, models, facts)
                known = basis, NodeSet(shards=shards, digest=digest(shards, (), watched))
            sets[node] = known
        self._sets = sets
        return {node: found for node, (_, found) in sets.items()}

    def forget(self, rows: FleetRows) -> None:
        """Forget replicas that are no more, once they are many."""
        if len(self._resting) > 2 * len(rows.replicas):
            self._resting.clear()


def _basis(
    found: list[Replica], models: dict[str, Model], facts: dict[str, NodeFacts], watched: tuple[str, ...]
) -> Basis:
    basis: list[object] = [*watched, *found, *[models.get(replica.model) for replica in found]]
    for replica in found:
        if len(replica.shards) > 1:
            basis.extend(facts.get(shard.allocation.node) for shard in replica.shards)
    return tuple(basis)


def _same(before: Basis, now: Basis) -> bool:
    return len(before) == len(now) and all(map(is_, before, now))


def _by_node(replicas: tuple[Replica, ...]) -> dict[str, list[Replica]]:
    placed: dict[str, list[Replica]] = {}
    for replica in replicas:
        for node in {shard.allocation.node for shard in replica.shards}:
            placed.setdefault(node, []).append(replica)
    return placed
