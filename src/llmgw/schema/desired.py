"""Desired state: the whole set of shards a node should run, as the leader orders it."""

from enum import StrEnum

from llmgw.schema.engine import EngineKind
from llmgw.schema.model import Profile, Role
from llmgw.schema.plan import Allocation
from llmgw.schema.value import Value


class Mode(StrEnum):
    """How an agent treats what is not in the set."""

    OBSERVE = "observe"
    """Change nothing: the leader has not read its rows or adopted what runs yet."""
    ENFORCE = "enforce"
    """Make it so: start what is missing, stop what is not wanted."""


class DesiredShard(Value, frozen=True, kw_only=True):
    """One shard to run. A higher `attempt` than the running one means: replace it."""

    id: str
    replica: str
    model: str
    rank: int
    attempt: int
    key: str
    role: Role
    source: str
    profile: Profile
    """Resolved: what the adapter decided is filled in."""
    allocation: Allocation
    grace_s: float = 30.0
    """Seconds open requests may still run once the shard is asked to end."""
    env: dict[str, str] = {}
    """Variables for a replica on several nodes: rank, addresses and adapters of its fabric (`core.shard_env`)."""


class WantedEngine(Value, frozen=True, kw_only=True):
    """An engine the node should have installed."""

    kind: EngineKind
    version: str | None = None
    variant: str | None = None


class DesiredState(Value, frozen=True, kw_only=True):
    """An order. Refused when epoch or generation is lower than obeyed before, or an equal epoch has another holder."""

    epoch: int
    holder: str
    generation: int
    mode: Mode
    shards: tuple[DesiredShard, ...] = ()
    engines: tuple[WantedEngine, ...] = ()
    watch_paths: tuple[str, ...] = ()
