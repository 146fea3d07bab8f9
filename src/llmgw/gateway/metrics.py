"""Counters of a worker, and their sum over all workers a gateway ever had.

Plain dictionaries: the hot path adds to a number. Names and labels are those of `telemetry.metrics.TABLE`; a histogram
goes out as `NAME_bucket` (with `le`), `NAME_sum` and `NAME_count`.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from llmgw.gateway.call import Call
from llmgw.schema.demand import MetricSample
from llmgw.telemetry.metrics import TABLE, Kind

REQUESTS = "llmgw_gateway_requests"
IN_FLIGHT = "llmgw_gateway_in_flight"
PEERS = "llmgw_gateway_peers"
VIEW_UNSAVED = "llmgw_gateway_view_unsaved"
QUEUE_DEPTH = "llmgw_gateway_queue_depth"
RETRIES = "llmgw_gateway_retries"
TOKENS = "llmgw_gateway_tokens"
KEY_TOKENS = "llmgw_gateway_key_tokens"
FIRST_TOKEN = "llmgw_gateway_time_to_first_token_seconds"  # noqa: S105 (a name, no secret)
BETWEEN_TOKENS = "llmgw_gateway_inter_token_seconds"

_BUCKETS: tuple[float, ...] = next(metric.buckets for metric in TABLE if metric.name == FIRST_TOKEN)
_GAUGES = frozenset(metric.name for metric in TABLE if metric.kind is Kind.GAUGE)

Labels = tuple[tuple[str, str], ...]


class Histogram:
    """Counts by bucket. Whoever observes often keeps `observe`, so that no label is looked up each time.

    Values are only noted, for that costs next to nothing, and counted when somebody looks: each second (`REPORT_S`).
    """

    __slots__ = ("_counts", "_noted", "_total", "observe")

    def __init__(self) -> None:
        self._counts = [0] * (len(_BUCKETS) + 1)
        self._total = 0.0
        self._noted: list[float] = []
        self.observe = self._noted.append
        """Count one value, in seconds."""

    def read(self) -> tuple[list[int], float]:
        """Give the counts by bucket, the last for what is above all, and the sum of all values."""
        for value in self._noted:
            self._counts[bisect_left(_BUCKETS, value)] += 1
        self._total += sum(self._noted)
        self._noted.clear()
        return self._counts, self._total


class WorkerCounters:
    """What one worker counted since it started."""

    def __init__(self) -> None:
        self.in_flight: Counter[str] = Counter()
        self.arrivals: Counter[str] = Counter()
        self.finished_at: dict[str, float] = {}
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._retries: Counter[str] = Counter()
        self._tokens: Counter[tuple[str, str]] = Counter()
        self._key_tokens: Counter[tuple[str, str, str]] = Counter()
        self._first_token: defaultdict[str, Histogram] = defaultdict(Histogram)
        self._between_tokens: defaultdict[str, Histogram] = defaultdict(Histogram)

    def finished(self, call: Call, now: float) -> None:
        """Count a request that ended, however it did."""
        model = call.model or ""
        self._requests[model, call.label, call.status] += 1
        if call.model is None:
            return
        self.finished_at[model] = now
        if call.retries:
            self._retries[model] += call.retries
        if call.first_token_at is not None:
            self._first_token[model].observe(call.first_token_at - call.started_at)
        meter = call.meter
        if meter.known:
            for which, count in (("prompt", meter.prompt), ("cached", meter.cached), ("completion", meter.completion)):
                self._tokens[model, which] += count
                if call.key is not None:
                    self._key_tokens[call.key, model, which] += count
            if call.place is not None and call.place.believed:
                self._tokens[model, "expected"] += round(call.place.believed * meter.prompt)

    def refused(self, status: int) -> None:
        """Count a request that no handler saw."""
        self._requests["", "", status] += 1

    def between_tokens(self, model: str) -> Histogram:
        """Give the histogram of the gaps between pieces of a model's streams."""
        return self._between_tokens[model]

    def samples(self, waiting: Mapping[str, int], at_engines: Mapping[str, int]) -> tuple[MetricSample, ...]:
        """Give all of it, cumulative, without the gateway's name; the two gauges are told by the caller."""
        out: list[MetricSample] = []
        for (model, route, status), count in self._requests.items():
            out.append(sample(REQUESTS, count, model=model, route=route, status=str(status)))
        out += [sample(RETRIES, count, model=model) for model, count in self._retries.items()]
        out += [sample(TOKENS, n, model=model, direction=which) for (model, which), n in self._tokens.items()]
        out += [sample(IN_FLIGHT, count, model=model) for model, count in at_engines.items()]
        out += [sample(QUEUE_DEPTH, count, model=model) for model, count in waiting.items()]
        for (key, model, which), n in self._key_tokens.items():
            out.append(sample(KEY_TOKENS, n, key=key, model=model, direction=which))
        for name, histograms in ((FIRST_TOKEN, self._first_token), (BETWEEN_TOKENS, self._between_tokens)):
            for model, histogram in histograms.items():
                out += histogram_samples(name, histogram, model=model)
        return tuple(out)


class GatewayTotals:
    """The sum over workers. What a worker counted stays counted when it ends; what it had in flight does not."""

    def __init__(self, gateway: str) -> None:
        self._gateway = gateway
        self._live: dict[int, dict[tuple[str, Labels], float]] = {}
        self._ended: Counter[tuple[str, Labels]] = Counter()

    def report(self, worker: int, samples: Iterable[MetricSample]) -> None:
        """Take in a worker's samples; they replace its last ones."""
        self._live[worker] = {(sample.name, sample.labels): sample.value for sample in samples}

    def ended(self, worker: int) -> None:
        """Keep what a worker that ended had counted."""
        for (name, labels), value in self._live.pop(worker, {}).items():
            if name not in _GAUGES:
                self._ended[name, labels] += value  # type: ignore[assignment]  # Counter is typed for ints only

    def samples(
        self, *, view_unsaved: bool = False, peers: Mapping[str, int] | None = None
    ) -> tuple[MetricSample, ...]:
        """Give the gateway's samples, each with its name as a label."""
        total: Counter[tuple[str, Labels]] = Counter(self._ended)
        if view_unsaved:
            total[VIEW_UNSAVED, ()] = 1
        for state, count in (peers or {}).items():
            total[PEERS, (("state", state),)] = count
        for live in self._live.values():
            for key, value in live.items():
                total[key] += value  # type: ignore[assignment]  # the same
        return tuple(
            MetricSample(name=name, labels=(("gateway", self._gateway), *labels), value=value)
            for (name, labels), value in total.items()
        )


def sample(name: str, value: float, **labels: str) -> MetricSample:
    """Make one sample, without the gateway's name."""
    return MetricSample(name=name, labels=tuple(labels.items()), value=value)


def histogram_samples(name: str, histogram: Histogram, **labels: str) -> list[MetricSample]:
    """Make the samples of one histogram."""
    out: list[MetricSample] = []
    below = 0
    counts, total = histogram.read()
    for bound, count in zip((*map(str, _BUCKETS), "+Inf"), counts, strict=True):
        below += count
        out.append(sample(f"{name}_bucket", below, **labels, le=bound))
    out.append(sample(f"{name}_sum", total, **labels))
    out.append(sample(f"{name}_count", below, **labels))
    return out
