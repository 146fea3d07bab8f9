"""Models as operators ask for them and see them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import Meta

from llmgw.schema.admin.replica import ReplicaRow
from llmgw.schema.model import LOST_AFTER_MIN_S, Profile, Role, Routing
from llmgw.schema.plan import Rejection
from llmgw.schema.value import Value

MAX_REPLICAS = 10_000
"""More replicas than the largest fleet of the design has nodes is a slip of the keyboard."""
MAX_SOURCE = 4096
"""Longest path on Linux, in bytes."""
NAME_PATTERN = r"(?!\.{1,2}(/|$))[A-Za-z0-9._:-]+(/(?!\.{1,2}(/|$))[A-Za-z0-9._:-]+)*"
"""Names stand in URLs: segments that clients or proxies would rewrite cannot be asked for again."""
MAX_NAME = 200

# Only described here: the services check, and say more than "does not match" when they refuse.
_Count = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_REPLICAS})]
_Most = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_REPLICAS})]
LostAfter = Annotated[float, Meta(extra_json_schema={"minimum": LOST_AFTER_MIN_S})] | Literal["never"]
_Seconds = Annotated[float, Meta(extra_json_schema={"minimum": 0})]
_Name = Annotated[str, Meta(extra_json_schema={"pattern": f"^{NAME_PATTERN}$", "maxLength": MAX_NAME})]
_Source = Annotated[str, Meta(extra_json_schema={"pattern": "^(/|hf:)", "maxLength": MAX_SOURCE})]


class ModelState(StrEnum):
    """One word for people, first that applies."""

    PARKED = "parked"
    """Failed every time it started; no longer tried."""
    READY = "ready"
    """As many replicas are ready as should be."""
    UNPLACEABLE = "unplaceable"
    """Should have more replicas, which fit nowhere now."""
    STARTING = "starting"
    SHORT = "short"
    """Should have more replicas, and none is starting right now."""


class ServeModel(Value, frozen=True, kw_only=True):
    """`POST /api/v1/models`."""

    name: _Name
    source: _Source
    """An absolute path, or `hf:ORG/REPO@REVISION[:FILE]`."""
    role: Role = Role.CHAT
    min: _Count = 1
    max: _Most | None = None
    """Left out: as `min`, at least 1."""
    idle_s: _Seconds | None = None
    """Seconds without a request after which replicas above `min` are stopped; left out or 0: they stay."""
    lost_after: LostAfter | None = None
    """Seconds of a node's silence after which replicas there are replaced, or `never`; left out: the server's
    `lost_after_s`."""
    routing: Routing = Routing.PREFIX
    """How gateways choose among its replicas."""
    profile: Profile = Profile()


class ChangeModel(Value, frozen=True, kw_only=True):
    """`PATCH /api/v1/models/NAME`: what is left out stays as it is."""

    source: _Source | None = None
    role: Role | None = None
    min: _Count | None = None
    max: _Most | None = None
    idle_s: _Seconds | None = None
    """0: replicas above `min` stay."""
    lost_after: LostAfter | Literal["default"] | None = None
    """`default`: the server's `lost_after_s` again."""
    routing: Routing | None = None
    profile: dict[str, Any] | None = None
    """Fields of the profile to change; the others stay. `null` gives a field back to the adapter."""


class ScaleModel(Value, frozen=True, kw_only=True):
    """`POST /api/v1/models/NAME/scale`: sets min, and max where it would be below."""

    replicas: _Count


class ModelRow(Value, frozen=True, kw_only=True):
    """A model with what became of it."""

    name: str
    source: str
    role: Role
    min: int
    max: int
    idle_s: float | None = None
    lost_after: float | Literal["never"] | None = None
    """`null`: the server's `lost_after_s`."""
    routing: Routing = Routing.PREFIX
    revision: int
    created_at: datetime
    profile: Profile
    """As the operator wrote it."""
    resolved: Profile
    """With what the engine's adapter decides filled in."""
    desired: int
    ready: int
    state: ModelState
    reason: str | None = None
    """Why it is not ready, in words."""
    failures: int = 0
    """Consecutive failed starts."""
    retry_at: datetime | None = None
    rejections: tuple[Rejection, ...] = ()
    replicas: tuple[ReplicaRow, ...] = ()


class ModelList(Value, frozen=True, kw_only=True):
    """`GET /api/v1/models`."""

    models: tuple[ModelRow, ...]


class Removed(Value, frozen=True, kw_only=True):
    """Answer of a DELETE: what was removed."""

    removed: str
