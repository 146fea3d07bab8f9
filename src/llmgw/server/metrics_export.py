"""`/metrics`: the fleet for Prometheus, declared by `telemetry.metrics.TABLE`. What is unknown or stale is absent."""

import math
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from llmgw.core.summary import summarize
from llmgw.schema.demand import MetricSample
from llmgw.schema.guard.judge import JudgeState
from llmgw.schema.replica import ReplicaState
from llmgw.schema.summary import ControlPlaneState
from llmgw.server.fleet import Fleet
from llmgw.server.node_metrics import node_samples
from llmgw.server.services.judges import judge_statuses
from llmgw.telemetry.metrics import TABLE, Kind, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Samples = Callable[[], Iterable[MetricSample]]

_SUFFIXES = {
    Kind.COUNTER: ("", "_total"),
    Kind.GAUGE: ("",),
    Kind.HISTOGRAM: ("_bucket", "_count", "_sum"),
}


class MetricsExport:
    """Renders the metrics of the fleet, of the gateways that report, and of this process."""

    def __init__(self, fleet: Fleet, *, process: Samples = tuple) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_FleetCollector(FleetSamples(fleet), fleet.metric_samples, process))

    def render(self) -> bytes:
        """Give the exposition in Prometheus' text format."""
        return generate_latest(self._registry)


class _FleetCollector(Collector):
    def __init__(self, *sources: Samples) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Family]:
        by_name: dict[str, list[MetricSample]] = {}
        for source in self._sources:
            for sample in source():
                by_name.setdefault(sample.name, []).append(sample)
        for metric in TABLE:
            family = _family(metric, by_name)
            if family.samples:
                yield family


def _family(metric: Metric, by_name: dict[str, list[MetricSample]]) -> Family:
    """Collect a metric's samples. What a gateway sends under names or labels not in the table is dropped."""
    family = Family(metric.name, metric.help, metric.kind.value)
    allowed = {*metric.labels, "le"} if metric.kind is Kind.HISTOGRAM else {*metric.labels}
    found = [sample for suffix in _SUFFIXES[metric.kind] for sample in by_name.get(metric.name + suffix, ())]
    for sample in sorted(found, key=_series):
        if {label for label, _ in sample.labels} <= allowed:
            name = metric.name + "_total" if metric.kind is Kind.COUNTER else sample.name
            family.add_sample(name, dict(sample.labels), sample.value)
    return family


def _series(sample: MetricSample) -> tuple[object, ...]:
    """Order series by labels, and the buckets of one by their bounds, not by their spelling."""
    labels = dict(sample.labels)
    bound = labels.pop("le", None)
    return sorted(labels.items()), sample.name, math.inf if bound in {None, "+Inf"} else float(bound or 0)


class FleetSamples:
    """What the control plane knows itself, read at each scrape."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._restarts = _Restarts()

    def __call__(self) -> Iterator[MetricSample]:
        """Give all samples now."""
        yield from self._lease()
        if self._fleet.loaded:
            yield from node_samples(self._fleet)
            yield from self._replicas()
            yield from self._models()
            yield from self._guard()
            yield _sample("llmgw_observing", self._fleet.observing is not None)
        yield from self._surroundings()
        yield _sample("llmgw_gateways_connected", len(self._fleet.gateways))

    def _lease(self) -> Iterator[MetricSample]:
        status = self._fleet.leader_status()
        yield _sample("llmgw_lease_leader", float(self._fleet.is_leader()))
        if status.epoch is not None:
            yield _sample("llmgw_lease_epoch", status.epoch)
        if status.renew_age_s is not None:
            yield _sample("llmgw_lease_renew_age_seconds", status.renew_age_s)
        yield _sample("llmgw_lease_terms_total", status.term)
        members = self._fleet.control_planes()
        for state in ControlPlaneState if members else ():
            yield _sample("llmgw_control_planes", sum(one.state is state for one in members), state=state.value)

    def _surroundings(self) -> Iterator[MetricSample]:
        store, floating = self._fleet.surroundings.store(), self._fleet.surroundings.floating()
        if store is not None:
            yield _sample("llmgw_store_replicated", store.problem is None)
            for member in store.members:
                yield _sample("llmgw_store_member_ok", member.problem is None, member=member.name)
                if member.lag >= 0:
                    yield _sample("llmgw_store_member_lag_bytes", member.lag, member=member.name)
        room = self._fleet.surroundings.room()
        if room is not None:
            yield _sample("llmgw_data_dir_free_bytes", room.free_bytes)
        if floating is not None:
            yield _sample("llmgw_floating_address_ok", floating.problem is None)

    def _guard(self) -> Iterator[MetricSample]:
        """Give how judges do: gateways report that to the control plane that leads."""
        if not self._fleet.is_leader():
            return
        yield _sample("llmgw_guard_policies", len(self._fleet.policies))
        reports = self._fleet.judge_reports()
        for judge in judge_statuses(self._fleet):
            yield _sample("llmgw_guard_judge_healthy", judge.state is JudgeState.HEALTHY, judge=judge.model)
            yield _sample("llmgw_guard_judge_state", 1.0, judge=judge.model, state=judge.state.value)
            if judge.model in reports:
                waiting = sum(report.waiting for report in reports[judge.model])
                yield _sample("llmgw_guard_judge_waiting", waiting, judge=judge.model)

    def _replicas(self) -> Iterator[MetricSample]:
        rows = self._fleet.rows
        for model in rows.models:
            for state in ReplicaState:
                count = sum(replica.model == model.name and replica.state is state for replica in rows.replicas)
                yield _sample("llmgw_replicas", count, model=model.name, state=state.value)
        counts = {replica.id: (replica.model, replica.restart_count) for replica in rows.replicas}
        for model_name, restarts in self._restarts.counted(counts).items():
            yield _sample("llmgw_replica_restarts", restarts, model=model_name)

    def _models(self) -> Iterator[MetricSample]:
        summary = summarize(self._fleet.snapshot(), version="", leader=None, epoch=None)
        yield _sample("llmgw_models", summary.models.satisfied, state="satisfied")
        yield _sample("llmgw_models", summary.models.short, state="short")
        yield _sample("llmgw_models", len(summary.parked), state="parked")
        yield _sample("llmgw_models", len(summary.unplaceable), state="unplaceable")


class _Restarts:
    """Restarts per model as a counter: it keeps those of replicas that are gone."""

    def __init__(self) -> None:
        self._seen: dict[str, int] | None = None
        self._totals: dict[str, int] = {}

    def counted(self, counts: dict[str, tuple[str, int]]) -> dict[str, int]:
        """Take in (model, restarts) by replica; what the first look finds happened before this process watched."""
        first = self._seen is None
        before = self._seen or {}
        for replica, (model, count) in counts.items():
            grown = 0 if first else max(0, count - before.get(replica, 0))
            self._totals[model] = self._totals.get(model, 0) + grown
        self._seen = {replica: count for replica, (_, count) in counts.items()}
        return self._totals


def _sample(name: str, value: float, **labels: str) -> MetricSample:
    return MetricSample(name=name, labels=tuple(labels.items()), value=float(value))
