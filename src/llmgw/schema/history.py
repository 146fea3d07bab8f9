"""History: an hour of a node's measurements on an even grid of time."""

from enum import StrEnum

from llmgw.schema.value import Value


class HistorySource(StrEnum):
    """Where an hour comes from."""

    PROMETHEUS = "prometheus"
    MEMORY = "memory"
    """What this control plane kept since it leads; gone when it ends."""


class SeriesName(StrEnum):
    """What is measured."""

    CPU_PERCENT = "cpu_percent"
    """Across all cores, 0 to 100."""
    MEMORY_USED_BYTES = "memory_used_bytes"
    LOAD1 = "load1"
    MODEL_CORES = "model_cores"
    """Cores busy with a model's engines on this node."""
    MODEL_MEMORY_BYTES = "model_memory_bytes"
    """Resident memory of a model's engines on this node."""
    QUEUE_DEPTH = "queue_depth"
    """Requests waiting for a model, at all gateways."""


class Series(Value, frozen=True, kw_only=True):
    """One line of a chart."""

    name: SeriesName
    labels: dict[str, str] = {}
    """`model`, for what is measured by model."""
    points: tuple[tuple[int, float | None], ...] = ()
    """Unix seconds, each a step after the one before, and the value; `null` where none is known."""


class History(Value, frozen=True, kw_only=True):
    """`GET /api/v1/nodes/{id}/history`. A series without a single known value is left out."""

    source: HistorySource
    problem: str | None = None
    """Why this is not what was asked for, in words."""
    step_s: int
    series: tuple[Series, ...] = ()
