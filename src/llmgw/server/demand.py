"""Demand: what gateways said last, by gateway. Absolute values that expire, so that a dead gateway's vanish."""

from collections import Counter
from collections.abc import Iterable

from llmgw.core.demand import ModelLoad
from llmgw.ports import Clock
from llmgw.schema.demand import DemandReport, JudgeReport, MetricSample, ModelDemand
from llmgw.schema.value import Value
from llmgw.server.audit_log import AuditLog
from llmgw.server.changes import Changes

DEMAND_EXPIRES_S = 3.0
"""Three missed reports: gateways report each second (contracts, the gateway's link)."""
ANSWERED_S = 30.0
"""An engine that answered so lately serves, whatever its agent says (facts on availability, section 3.2)."""


class GatewayLive(Value, frozen=True, kw_only=True):
    """One gateway master connected to this control plane."""

    name: str
    version: str
    pid: int
    connected_at: float
    """Monotonic seconds."""


class DemandBoard:
    """The connected gateways and their last reports."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gateways: dict[str, GatewayLive] = {}
        self._reports: dict[str, tuple[float, DemandReport]] = {}
        self._answered: dict[str, float] = {}
        self._probed: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._since = clock.monotonic()
        self._arrivals: Counter[str] = Counter()
        self.audit = AuditLog()
        """Coverage records of guarded requests."""
        self.held = Changes()
        """Told when requests of some model begin to wait."""

    def connect(self, gateway: GatewayLive) -> None:
        """Take on a gateway; replaces an older stream of the same name."""
        self._gateways[gateway.name] = gateway

    def disconnect(self, gateway: GatewayLive) -> None:
        """Forget a gateway's stream, unless a newer one took its place."""
        if self._gateways.get(gateway.name) is gateway:
            del self._gateways[gateway.name]

    def report(self, report: DemandReport) -> None:
        """Take in a report; it replaces the gateway's last one."""
        now = self._clock.monotonic()
        _, before = self._reports.get(report.gateway, (now, None))
        self._reports[report.gateway] = (now, report)
        self._count_arrivals(before, report)
        self.audit.take(report.audit)
        for replica, one in report.replicas.items():
            age = one.last_answered_age_s
            if one.in_flight or age is not None:
                asked_at = now if one.in_flight else now - (age or 0.0)
                self._asked[replica] = max(asked_at, self._asked.get(replica, asked_at))
            _note(self._answered, replica, age, now)
            _note(self._probed, replica, one.last_probed_age_s, now)
        if any(one.held and not _held(before, model) for model, one in report.models.items()):
            self.held.notify()

    def gateways(self) -> tuple[GatewayLive, ...]:
        """Give the connected gateways by name."""
        return tuple(self._gateways[name] for name in sorted(self._gateways))

    def by_model(self) -> dict[str, list[tuple[str, ModelDemand]]]:
        """Give the demand that has not expired: per model, (gateway, demand)."""
        demand: dict[str, list[tuple[str, ModelDemand]]] = {}
        for gateway, report in sorted(self._fresh().items()):
            for model, one in report.models.items():
                demand.setdefault(model, []).append((gateway, one))
        return demand

    def loads(self) -> dict[str, ModelLoad] | None:
        """Give the demand of each model, summed up over gateways; `None` while none reports."""
        if not self._fresh():
            return None
        found = self.by_model()
        return {
            model: _sum((one for _, one in found.get(model, ())), arrivals=self._arrivals[model])
            for model in found.keys() | self._arrivals.keys()
        }

    def judges(self) -> dict[str, list[JudgeReport]]:
        """Give by judge what gateways say of it that has not expired."""
        found: dict[str, list[JudgeReport]] = {}
        for _, report in sorted(self._fresh().items()):
            for judge, one in report.judges.items():
                found.setdefault(judge, []).append(one)
        return found

    def idle_s(self, replicas: Iterable[str]) -> dict[str, float]:
        """Give for each replica the seconds since it was last asked, at least; nothing while no gateway reports."""
        if not self._fresh():
            return {}
        now = self._clock.monotonic()
        self._asked = {replica: self._asked.get(replica, self._since) for replica in replicas}
        return {replica: now - at for replica, at in self._asked.items()}

    def answering(self) -> frozenset[str]:
        """Name the replicas that answered a request within the last `ANSWERED_S`, at whichever gateway."""
        return self._lately(self._answered)

    def probed(self) -> frozenset[str]:
        """Name the replicas whose first shard's engine answered a gateway's own question within that time."""
        return self._lately(self._probed)

    def reports(self) -> tuple[DemandReport, ...]:
        """Give the last reports that have not expired of the gateways connected here, not those that were relayed."""
        return tuple(report for name, report in sorted(self._fresh().items()) if name in self._gateways)

    def samples(self) -> tuple[MetricSample, ...]:
        """Give the metric samples that have not expired, of all gateways; each names its gateway in its labels."""
        return tuple(sample for _, report in sorted(self._fresh().items()) for sample in report.metrics)

    def _lately(self, stamps: dict[str, float]) -> frozenset[str]:
        oldest = self._clock.monotonic() - ANSWERED_S
        for replica in [replica for replica, at in stamps.items() if at < oldest]:
            del stamps[replica]
        return frozenset(stamps)

    def _count_arrivals(self, before: DemandReport | None, report: DemandReport) -> None:
        """Add what is new: gateways that restart count anew, and one that was silent does not count twice."""
        if before is None:
            return  # whatever it counted came before this process knew of it
        for model, one in report.models.items():
            known = before.models.get(model)
            counted = known.arrivals if known is not None and known.arrivals <= one.arrivals else 0
            if one.arrivals > counted:
                self._arrivals[model] += one.arrivals - counted

    def _fresh(self) -> dict[str, DemandReport]:
        oldest = self._clock.monotonic() - DEMAND_EXPIRES_S
        return {name: report for name, (at, report) in self._reports.items() if at >= oldest}


def _note(stamps: dict[str, float], replica: str, age_s: float | None, now: float) -> None:
    if age_s is not None and age_s <= ANSWERED_S:
        stamps[replica] = max(now - age_s, stamps.get(replica, now - age_s))


def _held(report: DemandReport | None, model: str) -> int:
    one = report.models.get(model) if report is not None else None
    return one.held if one is not None else 0


def _sum(parts: Iterable[ModelDemand], *, arrivals: int) -> ModelLoad:
    found = tuple(parts)
    waits = [one.oldest_wait_s for one in found if one.oldest_wait_s is not None]
    return ModelLoad(
        held=sum(one.held for one in found),
        in_flight=sum(one.in_flight for one in found),
        arrivals=arrivals,
        oldest_wait_s=max(waits, default=None),
    )
