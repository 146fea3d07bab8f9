"""Models, their embedded profile, and what became of them."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

import msgspec

from llmgw.schema.engine import EngineKind
from llmgw.schema.plan import Rejection
from llmgw.schema.value import Value

NEVER: Literal["never"] = "never"
"""Of `lost_after`: replicas on silent nodes are not replaced."""
LOST_AFTER_MIN_S = 60.0
"""Shorter silences are blips: an agent that lost its control plane is back within half a minute."""


class Role(StrEnum):
    """What a model is for."""

    CHAT = "chat"
    EMBED = "embed"
    RERANK = "rerank"
    GUARD = "guard"


class Routing(StrEnum):
    """How gateways choose among a model's replicas."""

    PREFIX = "prefix"
    """Where the first token should come soonest: warm caches, queued work, open requests."""
    LEAST_LOADED = "least_loaded"
    ROUND_ROBIN = "round_robin"
    SESSION = "session"
    """Always the same replica for one session, or for prompts that begin alike, while it can be asked."""


class Profile(Value, frozen=True, kw_only=True):
    """How one replica runs. Values left out are decided by the engine's adapter and shown."""

    engine: EngineKind = EngineKind.LLAMACPP
    engine_version: str | None = None
    variant: str | None = None
    nodes: int = 1
    devices_per_node: int = 0
    device_class: str | None = msgspec.field(name="class", default=None)
    cores: float | None = None
    memory_gb: float | None = None
    """Host memory to claim per shard, in GiB (the one size that is not in bytes)."""
    context: int | None = None
    """Tokens of context per slot."""
    slots: int | None = None
    """Requests one replica works on at the same time."""
    chat_template: str | None = None
    flags: dict[str, str] = {}
    env: dict[str, str] = {}
    fabric: str | None = None
    node_selector: dict[str, str] = {}


class Model(Value, frozen=True, kw_only=True):
    """What clients name in a request. `revision` grows with each change of the definition."""

    name: str
    source: str
    """An absolute path, or `hf:ORG/REPO@REVISION[:FILE]`."""
    role: Role = Role.CHAT
    min: int = 1
    max: int = 1
    idle_s: float | None = None
    """Seconds without a request after which replicas above `min` are stopped; `None` or 0: they stay."""
    lost_after: float | Literal["never"] | None = None
    """Seconds of a node's silence after which replicas there are replaced, `LOST_AFTER_MIN_S` or more, or `never`;
    `None`: the server's `lost_after_s`."""
    routing: Routing = Routing.PREFIX
    profile: Profile = Profile()
    revision: int = 1
    created_at: datetime


class Parked(Value, frozen=True, kw_only=True):
    """Why a model is no longer tried."""

    failures: int
    reason: str
    since: datetime


class NodeFailure(Value, frozen=True, kw_only=True):
    """A start of a model that failed on a node, or a replica that died there."""

    node: str
    at: datetime


class ModelStatus(Value, frozen=True, kw_only=True):
    """What became of a model: failed starts, parking, and why it fits nowhere. Written by the reconciler only."""

    model: str
    revision: int = 1
    """Revision the counters belong to: a changed model starts anew."""
    failures: int = 0
    """Consecutive failed starts that count (causes in the environment do not)."""
    retry_at: datetime | None = None
    last_failure: str | None = None
    failed_on: tuple[NodeFailure, ...] = ()
    """Where it failed within the last hour, oldest first, ten at most: those nodes are taken after their equals."""
    parked: Parked | None = None
    unplaceable: str | None = None
    """One sentence for people when the model should have more replicas and fits nowhere now."""
    rejections: tuple[Rejection, ...] = ()
    """The same as data: per node the first constraint that ruled it out."""
