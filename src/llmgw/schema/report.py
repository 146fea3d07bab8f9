"""Reports: what an agent says of its shards and its load."""

from datetime import datetime
from enum import StrEnum

from llmgw.schema.engine import EngineKind
from llmgw.schema.replica import ShardPhase
from llmgw.schema.value import Value

LOAD_EXPIRES_S = 60.0
"""A measurement older than a minute is left out everywhere, never repeated."""


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


class MemoryKind(StrEnum):
    """How resident memory was counted."""

    PSS = "pss"
    """Pages shared between processes are split among them: sums are true."""
    RSS = "rss"
    """Shared pages count in each process: sums may be too high. What the kernel tells when PSS is not allowed."""


class ShardLoad(Value, frozen=True, kw_only=True):
    """What one engine's whole process group used between two looks."""

    shard: str
    cpu_cores: float | None = None
    """Cores busy on average."""
    memory_bytes: int | None = None
    """Resident memory, files that are mapped included."""
    memory_anonymous_bytes: int | None = None
    """The part that is not backed by files: what would not be given back under pressure."""
    memory_kind: MemoryKind | None = None


class Pressure(Value, frozen=True, kw_only=True):
    """Share of the last 10 s in which some task waited for a resource, in percent; `None` without PSI in the kernel."""

    cpu_percent: float | None = None
    memory_percent: float | None = None
    io_percent: float | None = None


class Load(Value, frozen=True, kw_only=True):
    """One measurement of a node's load, with its age in seconds at the moment of sending."""

    age_s: float
    cpu_percent: float | None = None
    """Across all cores, 0 to 100."""
    load1: float | None = None
    load5: float | None = None
    load15: float | None = None
    memory_used_bytes: int | None = None
    memory_available_bytes: int | None = None
    pressure: Pressure | None = None
    data_dir_free_bytes: int | None = None
    """Room left for the agent's own files and the logs of engines."""
    shards: tuple[ShardLoad, ...] = ()

    def of(self, shard: str) -> ShardLoad | None:
        """Give what one shard's engine uses; `None` when the measurement does not tell of it."""
        return next((one for one in self.shards if one.shard == shard), None)
