"""Demand: what gateways tell the control plane each second. Absolute, never a difference; expires after 3 s."""

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
