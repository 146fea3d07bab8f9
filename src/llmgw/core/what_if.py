"""Fleets as they would be: small changes of a snapshot, and what the planner then makes of one model."""

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from llmgw.core.demand import desired_replicas
from llmgw.core.drain import foreseen
from llmgw.core.node_lifecycle import shown_state
from llmgw.core.snapshot import ModelSnapshot, NodeSnapshot, Snapshot
from llmgw.schema.engine import EngineInstall, EngineKind, EngineState
from llmgw.schema.model import Model
from llmgw.schema.node import Intent, NodeFacts, Reachability
from llmgw.schema.plan import Plan
from llmgw.schema.weights import Weights, WeightsFormat

Planner = Callable[[Snapshot], Plan]
Edit = Callable[[Snapshot], Snapshot]
STEPS = 6
"""Most plans looked ahead: one stops, one sees the room, one places; the rest is margin."""


def placed(snapshot: Snapshot, model: str, planner: Planner) -> int:
    """Count the replicas of a model that would be placed from here until the fleet is at rest, or `STEPS` ahead."""
    count = 0
    for _ in range(STEPS):
        plan = planner(snapshot)
        count += sum(placement.model == model for placement in plan.placements)
        if not plan.placements and not plan.removals:
            break
        snapshot = foreseen(snapshot, plan)
    return count


def all_of(edits: Iterable[Edit]) -> Edit:
    """Make several changes at once."""
    found = tuple(edits)

    def apply(snapshot: Snapshot) -> Snapshot:
        for edit in found:
            snapshot = edit(snapshot)
        return snapshot

    return apply


def open_node(node: str) -> Edit:
    """A node answers, and its operator wants it to take replicas."""

    def change(seen: NodeSnapshot) -> NodeSnapshot:
        row = replace(seen.node, intent=Intent.NONE, intent_reason=None, reachability=Reachability.CONNECTED)
        return replace(seen, node=row, state=shown_state(row), reports=seen.reports or (), settling=False)

    return _node(node, change)


def with_labels(node: str, labels: Mapping[str, str]) -> Edit:
    """A node has labels."""
    return _facts(node, lambda facts: replace(facts, labels={**facts.labels, **labels}))


def with_engine(node: str, kind: EngineKind, version: str | None, variant: str | None) -> Edit:
    """A node has an engine."""
    install = EngineInstall(kind=kind, version=version, variant=variant or "", state=EngineState.READY)
    return _facts(node, lambda facts: replace(facts, engines=(*facts.engines, install)))


def with_weights(node: str, path: str) -> Edit:
    """A node has weights."""
    weights = Weights(path=path, format=WeightsFormat.GGUF, size_bytes=0)
    return _facts(node, lambda facts: replace(facts, weights=(*(facts.weights or ()), weights)))


def with_healthy_devices(node: str) -> Edit:
    """All devices of a node are in order."""
    return _facts(node, lambda facts: replace(facts, devices=tuple(replace(d, problem=None) for d in facts.devices)))


def with_node(template: NodeSnapshot, name: str) -> Edit:
    """There is one more node, like another, with nothing on it."""
    healthy = tuple(replace(device, problem=None) for device in template.node.facts.devices)
    node = replace(
        template.node,
        id=name,
        facts=replace(template.node.facts, devices=healthy),
        intent=Intent.NONE,
        reachability=Reachability.CONNECTED,
    )
    fresh = NodeSnapshot(node=node, state=shown_state(node), reports=())
    return lambda snapshot: replace(snapshot, nodes=(*snapshot.nodes, fresh))


def with_fewer(model: str, by: int) -> Edit:
    """A model has fewer replicas than now. Which of them go is the planner's choice."""

    def change(seen: ModelSnapshot) -> ModelSnapshot:
        left = max(0, desired_replicas(seen.model, seen.wanted) - by)
        return replace(seen, model=replace(seen.model, min=min(seen.model.min, left), max=left), wanted=left)

    return with_model(model, change)


def with_model(model: str, change: Callable[[ModelSnapshot], ModelSnapshot]) -> Edit:
    """Change one model."""

    def apply(snapshot: Snapshot) -> Snapshot:
        models = tuple(change(seen) if seen.model.name == model else seen for seen in snapshot.models)
        return replace(snapshot, models=models)

    return apply


def with_profile(model: str, **fields: object) -> Edit:
    """Change fields of a model's profile. Its revision stays: nothing that runs is replaced."""

    def change(seen: ModelSnapshot) -> ModelSnapshot:
        changed: Model = replace(seen.model, profile=replace(seen.model.profile, **fields))
        return replace(seen, model=changed)

    return with_model(model, change)


def with_claim(model: str, **fields: object) -> Edit:
    """Change what a shard of a model claims."""
    return with_model(model, lambda seen: replace(seen, claim=replace(seen.claim, **fields)))


def _facts(node: str, change: Callable[[NodeFacts], NodeFacts]) -> Edit:
    return _node(node, lambda seen: replace(seen, node=replace(seen.node, facts=change(seen.node.facts))))


def _node(node: str, change: Callable[[NodeSnapshot], NodeSnapshot]) -> Edit:
    def apply(snapshot: Snapshot) -> Snapshot:
        nodes = tuple(change(seen) if seen.node.id == node else seen for seen in snapshot.nodes)
        return replace(snapshot, nodes=nodes)

    return apply
