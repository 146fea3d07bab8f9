"""Demand: one worker's, and the sum over workers that goes to the control plane each second."""

from collections.abc import Iterable, Mapping

from llmgw.gateway.admit import Admission
from llmgw.gateway.metrics import WorkerCounters
from llmgw.gateway.routes_view import Target
from llmgw.schema.demand import ModelDemand, ReplicaDemand


def worker_demand(counters: WorkerCounters, admission: Admission, now: float) -> dict[str, ModelDemand]:
    """Give one worker's demand per model, absolute. `now` is of `time.monotonic`."""
    return {
        model: ModelDemand(
            held=admission.waiting(model),
            in_flight=counters.in_flight[model] - admission.waiting(model),
            arrivals=arrivals,
            oldest_wait_s=admission.oldest_wait_s(model, now),
            last_finished_age_s=_age(counters.finished_at.get(model), now),
        )
        for model, arrivals in counters.arrivals.items()
    }


def replica_demand(targets: Iterable[Target], now: float) -> dict[str, ReplicaDemand]:
    """Give what one worker knows of the replicas it asked, by id. `now` is of `time.monotonic`."""
    return {
        target.id: ReplicaDemand(in_flight=target.in_flight, last_answered_age_s=_age(target.answered_at, now))
        for target in targets
        if target.in_flight or target.answered_at is not None
    }


def total_replicas(parts: Iterable[Mapping[str, ReplicaDemand]]) -> dict[str, ReplicaDemand]:
    """Sum up what several workers, and the master, know of replicas."""
    total: dict[str, ReplicaDemand] = {}
    for part in parts:
        for replica, one in part.items():
            other = total.get(replica, ReplicaDemand(in_flight=0))
            total[replica] = ReplicaDemand(
                in_flight=one.in_flight + other.in_flight,
                last_answered_age_s=_smallest(one.last_answered_age_s, other.last_answered_age_s),
                last_probed_age_s=_smallest(one.last_probed_age_s, other.last_probed_age_s),
            )
    return total


def _age(at: float | None, now: float) -> float | None:
    return None if at is None else now - at


def total_demand(parts: Iterable[Mapping[str, ModelDemand]]) -> dict[str, ModelDemand]:
    """Sum up several workers' demand."""
    total: dict[str, ModelDemand] = {}
    for part in parts:
        for model, one in part.items():
            total[model] = _sum(total[model], one) if model in total else one
    return total


def ended_demand(before: Mapping[str, ModelDemand], last: Mapping[str, ModelDemand]) -> dict[str, ModelDemand]:
    """Keep of an ended worker what stays true: how many requests came. `before` is what earlier ones left."""
    left = {model: ModelDemand(held=0, in_flight=0, arrivals=one.arrivals) for model, one in last.items()}
    return total_demand((before, left))


def _sum(one: ModelDemand, other: ModelDemand) -> ModelDemand:
    return ModelDemand(
        held=one.held + other.held,
        in_flight=one.in_flight + other.in_flight,
        arrivals=one.arrivals + other.arrivals,
        oldest_wait_s=_largest(one.oldest_wait_s, other.oldest_wait_s),
        last_finished_age_s=_smallest(one.last_finished_age_s, other.last_finished_age_s),
    )


def _largest(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return max(known) if known else None


def _smallest(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return min(known) if known else None
