"""What of a plan still stands when the fleet moved on while it was made.

A plan is made model by model from the model's definition and its replicas. Where those are as they were, what was
decided for the model stands; what it needs of nodes is checked anew by `plan_lint`. The rest waits for the next plan.
"""

from collections.abc import Set as AbstractSet

from llmgw.core.snapshot import ModelSnapshot, Snapshot
from llmgw.schema.plan import Plan


def still_true(plan: Plan, before: Snapshot, now: Snapshot) -> Plan:
    """Give the part of a plan made for `before` that may be carried out `now`. `judged` names the models it covers."""
    of = {replica.id: replica.model for replica in now.replicas} if plan.removals else {}
    concerned = {one.model for one in plan.placements}
    concerned.update(one.model for one in plan.shortfalls)
    concerned.update(of[one.replica] for one in plan.removals if one.replica in of)
    # Those that are flagged and not short in this plan lose the flag: that rests on their definition as well.
    concerned.update(seen.model.name for seen in now.models if seen.status.unplaceable is not None)
    old, new = _bases(before, concerned), _bases(now, concerned)
    unchanged = frozenset(name for name in concerned if old[name] == new[name])
    # Refusals speak of each node there was; what was placed may stand all the same.
    same_nodes = {seen.node.id for seen in before.nodes} == {seen.node.id for seen in now.nodes}
    return Plan(
        placements=tuple(one for one in plan.placements if one.model in unchanged),
        removals=tuple(one for one in plan.removals if of.get(one.replica) in unchanged),
        shortfalls=tuple(one for one in plan.shortfalls if same_nodes and one.model in unchanged),
        judged=unchanged if same_nodes else frozenset(),
    )


def _bases(snapshot: Snapshot, names: AbstractSet[str]) -> dict[str, tuple[object, ...]]:
    """Give for each name, of models that are gone as well, what its part of a plan rests on."""
    wishes = {seen.model.name: _wish(seen) for seen in snapshot.models if seen.model.name in names}
    stocks: dict[str, list[tuple[object, ...]]] = {name: [] for name in names}
    for one in snapshot.replicas:
        if one.model in stocks:
            stocks[one.model].append((one.id, one.state, one.revision, one.id in snapshot.doubtful))
    return {name: (wishes.get(name), sorted(stock)) for name, stock in stocks.items()}


def _wish(seen: ModelSnapshot) -> tuple[object, ...]:
    return seen.model, seen.claim, seen.wanted, seen.status.parked, seen.status.revision
