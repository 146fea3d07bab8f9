"""Making the snapshot: stored rows, what agents say, and what each model needs, as one value."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from operator import is_
from typing import Protocol

import msgspec

from llmgw.core.node_lifecycle import is_settling, shown_state
from llmgw.core.snapshot import ModelSnapshot, NodeSnapshot, Snapshot
from llmgw.ports import FleetRows
from llmgw.schema.model import Model, ModelStatus, Profile
from llmgw.schema.node import Node, Reachability
from llmgw.schema.plan import Claim
from llmgw.schema.replica import ReplicaState, ShardPhase
from llmgw.schema.report import ShardReport
from llmgw.schema.value import Value
from llmgw.schema.weights import Weights


class Resolved(Value, frozen=True, kw_only=True):
    """A profile with all that the engine's adapter decides filled in, and what one shard of it needs."""

    profile: Profile
    claim: Claim


class Resolver(Protocol):
    """Asks a model's engine adapter."""

    def __call__(self, model: Model, weights: Weights | None, cores_usable: float | None) -> Resolved:
        """Resolve `model`, given its weights and the usable cores of a node, where known."""


class Observer:
    """Makes snapshots; remembers resolved profiles as long as what they depend on stays equal."""

    def __init__(self, resolve: Resolver) -> None:
        self._resolve = resolve
        self._known: dict[str, tuple[object, Resolved]] = {}
        self._made: dict[str, tuple[tuple[object, ...], ModelSnapshot]] = {}
        self._sources = Sources(())

    def snapshot(
        self,
        rows: FleetRows,
        *,
        reports: Mapping[str, tuple[ShardReport, ...]],
        now: datetime,
        wanted: Mapping[str, int] | None = None,
    ) -> Snapshot:
        """Give the fleet at `now`. Models carry their profile resolved; `reports` has the nodes heard so far.

        `wanted` has the replicas demand asks for, by model.
        """
        if self._sources.nodes is not rows.nodes:
            self._sources = Sources(rows.nodes)
        statuses = {status.model: status for status in rows.statuses}
        return Snapshot(
            now=now,
            nodes=tuple(
                NodeSnapshot(
                    node=node,
                    state=shown_state(node),
                    reports=reports.get(node.id),
                    settling=is_settling(node, now),
                )
                for node in rows.nodes
            ),
            models=tuple(
                self._model(model, statuses.get(model.name), (wanted or {}).get(model.name)) for model in rows.models
            ),
            replicas=rows.replicas,
            doubtful=_doubtful(rows, reports),
        )

    def _model(self, model: Model, status: ModelStatus | None, wanted: int | None) -> ModelSnapshot:
        resolved = self._resolved(model)
        basis = (model, status, wanted, resolved)
        known = self._made.get(model.name)
        if known is not None and all(map(is_, known[0], basis)):
            return known[1]
        made = ModelSnapshot(
            model=msgspec.structs.replace(model, profile=resolved.profile),
            status=status or ModelStatus(model=model.name, revision=model.revision),
            claim=resolved.claim,
            wanted=wanted,
        )
        self._made[model.name] = (basis, made)
        return made

    def _resolved(self, model: Model) -> Resolved:
        weights = self._sources.weights(model.source)
        cores = self._sources.smallest_cores(model.source)
        inputs = (model.profile, model.role, weights, cores)
        known = self._known.get(model.name)
        if known is not None and known[0] == inputs:
            return known[1]
        resolved = self._resolve(model, weights, cores)
        self._known[model.name] = (inputs, resolved)
        return resolved


def _doubtful(rows: FleetRows, reports: Mapping[str, tuple[ShardReport, ...]]) -> frozenset[str]:
    """Name the replicas stored as ready that no connected agent says are ready."""
    connected = {node.id for node in rows.nodes if node.reachability is Reachability.CONNECTED}
    said = {
        (report.id, report.attempt)
        for node, found in reports.items()
        if node in connected
        for report in found
        if report.phase is ShardPhase.READY
    }
    return frozenset(
        replica.id
        for replica in rows.replicas
        if replica.state is ReplicaState.READY
        and any((shard.id, replica.attempt) not in said for shard in replica.shards)
    )


class Sources:
    """What the nodes see at each path, looked up once for all models."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = nodes
        self._weights: dict[str, Weights] = {}
        self._cores: dict[str, float] = {}
        known = (node.facts.host.cores_usable for node in nodes)
        self._all_cores = min((cores for cores in known if cores is not None), default=None)
        for node in nodes:
            for weights in _seen(node):
                self._see(weights, node.facts.host.cores_usable)

    def weights(self, source: str) -> Weights | None:
        """Give the weights at exactly `source`, as the first node that sees them in good order reads them.

        Broken weights are given only when no node sees whole ones.
        """
        return self._weights.get(source)

    def smallest_cores(self, source: str) -> float | None:
        """Give the fewest usable cores of the nodes that see `source`, else of all: a claim must fit where it runs."""
        return self._cores.get(source, self._all_cores)

    def _see(self, weights: Weights, cores: float | None) -> None:
        known = self._weights.get(weights.path)
        if known is None or (known.problem is not None and weights.problem is None):
            self._weights[weights.path] = weights
        if cores is not None:
            self._cores[weights.path] = min(cores, self._cores.get(weights.path, cores))


def _seen(node: Node) -> Iterator[Weights]:
    yield from node.facts.weights or ()
    yield from (watched.weights for watched in node.facts.watched if watched.weights is not None)
