"""Reports: what an agent says of its shards and its load."""

from datetime import datetime

from llmgw.schema.engine import EngineKind
from llmgw.schema.replica import ShardPhase
from llmgw.schema.value import Value


class Death(Value, frozen=True, kw_only=True):
    """How a shard's engine ended. `status` is `None` when it cannot be seen (an adopted process)."""

    status: int | None
    """Exit status as Popen gives it: negative is the signal."""
    asked: bool
    """We asked it to end: only then a stop is a stop, whatever the status."""
    cause: str
    """In words, from the first decisive line of the log."""
    heals: bool = True
    """False for a cause that trying again cannot mend (a file that is not GGUF)."""
    counts: bool = True
    """False for a cause in the environment, which must not park the model."""
    log_line: str | None = None
    """The decisive line itself."""


class ShardReport(Value, frozen=True, kw_only=True):
    """One shard as its agent sees it now. The set is always whole; a shard that is gone is not in it."""

    id: str
    attempt: int
    phase: ShardPhase
    model: str
    engine: EngineKind
    endpoint: str | None = None
    pid: int | None = None
    engine_version: str | None = None
    started_at: datetime | None = None
    slots: int | None = None
    context: int | None = None
    adopted: bool = False
    progress: str | None = None
    """What a starting engine is doing, in words."""
    death: Death | None = None


class Load(Value, frozen=True, kw_only=True):
    """One measurement of a node's load, with its age in seconds at the moment of sending."""

    age_s: float
    cpu_percent: float | None = None
    load1: float | None = None
    load5: float | None = None
    load15: float | None = None
    memory_used_bytes: int | None = None
    memory_available_bytes: int | None = None
