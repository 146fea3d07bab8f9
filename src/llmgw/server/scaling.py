"""Scaling: remembers, while one process leads, how many replicas demand wants of each model."""

from collections.abc import Mapping

from llmgw.core.demand import ModelLoad, Scale, Supply, next_scale
from llmgw.ports import FleetRows
from llmgw.schema.model import Model
from llmgw.schema.replica import Replica, ReplicaState


class Scaling:
    """One leader's term. What it remembers begins anew with the next: what runs then counts as wanted."""

    def __init__(self) -> None:
        self._scales: dict[str, Scale] = {}

    def look(self, rows: FleetRows, loads: Mapping[str, ModelLoad] | None, *, now: float) -> dict[str, int]:
        """Give the replicas wanted of each model that may have more than its minimum.

        `loads` is `None` while no gateway reports; `now` is monotonic.
        """
        elastic = [model for model in rows.models if model.max > model.min]
        replicas = _by_model(rows.replicas) if elastic else {}
        self._scales = {
            model.name: next_scale(
                self._scales.get(model.name),
                model,
                None if loads is None else loads.get(model.name, ModelLoad()),
                _supply(model, replicas.get(model.name, [])),
                now=now,
            )
            for model in elastic
        }
        return {name: scale.wanted for name, scale in self._scales.items()}


def _by_model(replicas: tuple[Replica, ...]) -> dict[str, list[Replica]]:
    found: dict[str, list[Replica]] = {}
    for replica in replicas:
        if replica.state is not ReplicaState.DRAINING:
            found.setdefault(replica.model, []).append(replica)
    return found


def _supply(model: Model, replicas: list[Replica]) -> Supply:
    # While a change rolls, old and new replicas stand side by side: they are not both wanted.
    current = sum(replica.revision == model.revision for replica in replicas)
    slots = (replica.shards[0].slots for replica in replicas)
    return Supply(
        existing=max(current, len(replicas) - current),
        ready=sum(replica.state is ReplicaState.READY for replica in replicas),
        slots=next((known for known in slots if known is not None), model.profile.slots),
    )
