"""Making the snapshot: stored rows, what agents say, and what each model needs, as one value."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

import msgspec

from llmgw.core.node_lifecycle import shown_state
from llmgw.core.snapshot import ModelSnapshot, NodeSnapshot, Snapshot
from llmgw.ports import FleetRows
from llmgw.schema.model import Model, ModelStatus, Profile
from llmgw.schema.node import Node
from llmgw.schema.plan import Claim
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

    def snapshot(self, rows: FleetRows, *, reports: Mapping[str, tuple[ShardReport, ...]], now: datetime) -> Snapshot:
        """Give the fleet at `now`. Models carry their profile resolved; `reports` has the nodes heard so far."""
        statuses = {status.model: status for status in rows.statuses}
        return Snapshot(
            now=now,
            nodes=tuple(
                NodeSnapshot(node=node, state=shown_state(node), reports=reports.get(node.id)) for node in rows.nodes
            ),
            models=tuple(self._model(model, statuses.get(model.name), rows.nodes) for model in rows.models),
            replicas=rows.replicas,
        )

    def _model(self, model: Model, status: ModelStatus | None, nodes: tuple[Node, ...]) -> ModelSnapshot:
        resolved = self._resolved(model, nodes)
        return ModelSnapshot(
            model=msgspec.structs.replace(model, profile=resolved.profile),
            status=status or ModelStatus(model=model.name, revision=model.revision),
            claim=resolved.claim,
        )

    def _resolved(self, model: Model, nodes: tuple[Node, ...]) -> Resolved:
        weights = weights_of(model.source, nodes)
        cores = _smallest_cores(model.source, nodes)
        inputs = (model.profile, model.role, weights, cores)
        known = self._known.get(model.name)
        if known is not None and known[0] == inputs:
            return known[1]
        resolved = self._resolve(model, weights, cores)
        self._known[model.name] = (inputs, resolved)
        return resolved


def weights_of(source: str, nodes: tuple[Node, ...]) -> Weights | None:
    """Give the weights at exactly `source`, as the first node that sees them in good order reads them.

    Broken weights are given only when no node sees whole ones.
    """
    broken = None
    for node in nodes:
        for weights in _seen(node, source):
            if weights.problem is None:
                return weights
            broken = broken or weights
    return broken


def _seen(node: Node, source: str) -> tuple[Weights, ...]:
    found = tuple(weights for weights in node.facts.weights or () if weights.path == source)
    watched = tuple(path.weights for path in node.facts.watched if path.path == source and path.weights is not None)
    return found + watched


def _smallest_cores(source: str, nodes: tuple[Node, ...]) -> float | None:
    """Give the fewest usable cores of the nodes that see `source`, else of all: a claim must fit where it can run."""
    able = tuple(node for node in nodes if _seen(node, source)) or nodes
    cores = [node.facts.host.cores_usable for node in able if node.facts.host.cores_usable is not None]
    return min(cores, default=None)
