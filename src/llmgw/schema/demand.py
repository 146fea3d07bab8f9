"""Demand: what gateways tell the control plane each second. Absolute, never a difference; expires after 3 s."""

from datetime import datetime

from llmgw.schema.guard.coverage import Coverage
from llmgw.schema.guard.judge import CanaryReport, JudgeFailure
from llmgw.schema.guard.rule import FailureKind
from llmgw.schema.value import Value


class ModelDemand(Value, frozen=True, kw_only=True):
    """One model's demand at one gateway."""

    held: int
    """Requests waiting for a replica or a slot."""
    in_flight: int
    arrivals: int
    """Requests since the gateway started."""
    oldest_wait_s: float | None = None
    last_finished_age_s: float | None = None


class ReplicaDemand(Value, frozen=True, kw_only=True):
    """What one gateway knows of one replica that it asked."""

    in_flight: int
    last_answered_age_s: float | None = None
    """Seconds since the replica last began or ended a good answer here."""
    last_probed_age_s: float | None = None
    """Seconds since the engine of its first shard answered this gateway's own question, asked because the node's agent
    is silent. Nobody's request: it makes no replica less idle."""


class JudgeReport(Value, frozen=True, kw_only=True):
    """What one gateway knows of one judge that policies ask."""

    canaries: CanaryReport | None = None
    """Its last round; `None` before the first."""
    canaries_age_s: float | None = None
    canary_s: float | None = None
    """The longest answer of that round."""
    quarantined: bool = False
    """This gateway does not ask it: its canaries fail."""
    last_failure: JudgeFailure | None = None
    failures: dict[FailureKind, int] = {}
    """In the last minute, by kind."""
    answers: int = 0
    """Verdicts in the last minute."""
    slowest_s: float | None = None
    """95th percentile of the last minute's waits; `None` without any."""
    waiting: int = 0
    """Questions that wait for a slot or an answer."""


class AuditEntry(Value, frozen=True, kw_only=True):
    """The coverage record of one request, without any of its text."""

    at: datetime
    request_id: str
    key: str | None
    """Public id of the client's key."""
    project: str | None
    model: str
    surface: str
    """`chat`, `completions`, …"""
    coverage: Coverage


class MetricSample(Value, frozen=True, kw_only=True):
    """One cumulative sample of a gateway's metrics, by the names of the metric table."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


class DemandReport(Value, frozen=True, kw_only=True):
    """One gateway's report."""

    gateway: str
    seq: int
    models: dict[str, ModelDemand] = {}
    replicas: dict[str, ReplicaDemand] = {}
    """By replica id: those in the gateway's view that it asked."""
    metrics: tuple[MetricSample, ...] = ()
    judges: dict[str, JudgeReport] = {}
    """By model."""
    audit: tuple[AuditEntry, ...] = ()
    """Records since the last report: of requests that were not allowed as they were, or not scanned whole. Bounded: the
    newest are kept."""
