"""Metrics of this process itself: how late its loop wakes up, and how its store answers."""

import asyncio
import bisect
import threading
from collections.abc import Iterator

from llmgw.ports import Clock
from llmgw.schema.demand import MetricSample
from llmgw.telemetry.metrics import TABLE

LAG_STEP_S = 0.1
_LAG = "llmgw_loop_lag_seconds"
_CALLS = "llmgw_store_call_seconds"
_ERRORS = "llmgw_store_errors"
_HAND_OVERS = "llmgw_lease_hand_overs"


class ProcessMetrics:
    """Counts on the loop and on the store's threads, read by `/metrics`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lag = _Histogram(_buckets(_LAG))
        self._calls: dict[str, _Histogram] = {}
        self._errors: dict[tuple[str, str], int] = {}
        self._hand_overs = 0

    async def measure_lag(self, clock: Clock) -> None:
        """Note how late the loop wakes up, until cancelled."""
        while True:
            due = clock.monotonic() + LAG_STEP_S
            await asyncio.sleep(LAG_STEP_S)
            self.lag(max(0.0, clock.monotonic() - due))

    def lag(self, seconds: float) -> None:
        """Note one wake-up."""
        with self._lock:
            self._lag.add(seconds)

    def store_call(self, call: str, seconds: float, code: str | None) -> None:
        """Note one store call; `code` is its error's. From any thread."""
        with self._lock:
            self._calls.setdefault(call, _Histogram(_buckets(_CALLS))).add(seconds)
            if code is not None:
                self._errors[call, code] = self._errors.get((call, code), 0) + 1

    def handed_over(self) -> None:
        """Note that the lead was handed over since agents reach another control plane and not this one."""
        with self._lock:
            self._hand_overs += 1

    def samples(self) -> tuple[MetricSample, ...]:
        """Give everything, cumulative, by the names of the metric table."""
        with self._lock:
            found = list(self._lag.samples(_LAG, ()))
            found.append(MetricSample(name=_HAND_OVERS, labels=(), value=float(self._hand_overs)))
            for call, histogram in sorted(self._calls.items()):
                found.extend(histogram.samples(_CALLS, (("call", call),)))
            for (call, code), count in sorted(self._errors.items()):
                labels = (("call", call), ("code", code))
                found.append(MetricSample(name=_ERRORS, labels=labels, value=float(count)))
        return tuple(found)


class _Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self, name: str, labels: tuple[tuple[str, str], ...]) -> Iterator[MetricSample]:
        total = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            yield MetricSample(name=f"{name}_bucket", labels=(*labels, ("le", bound)), value=float(total))
        yield MetricSample(name=f"{name}_count", labels=labels, value=float(total))
        yield MetricSample(name=f"{name}_sum", labels=labels, value=self._sum)


def _buckets(name: str) -> tuple[float, ...]:
    return next(metric.buckets for metric in TABLE if metric.name == name)
