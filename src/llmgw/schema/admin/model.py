"""Models as operators ask for them and see them."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from llmgw.schema.admin.replica import ReplicaRow
from llmgw.schema.model import Profile, Role
from llmgw.schema.plan import Rejection
from llmgw.schema.value import Value


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

    name: str
    source: str
    """An absolute path, or `hf:ORG/REPO@REVISION[:FILE]`."""
    role: Role = Role.CHAT
    min: int = 1
    max: int | None = None
    """Left out: as `min`, at least 1."""
    profile: Profile = Profile()


class ChangeModel(Value, frozen=True, kw_only=True):
    """`PATCH /api/v1/models/NAME`: what is left out stays as it is."""

    source: str | None = None
    role: Role | None = None
    min: int | None = None
    max: int | None = None
    profile: dict[str, Any] | None = None
    """Fields of the profile to change; the others stay. `null` gives a field back to the adapter."""


class ScaleModel(Value, frozen=True, kw_only=True):
    """`POST /api/v1/models/NAME/scale`: sets min, and max where it would be below."""

    replicas: int


class ModelRow(Value, frozen=True, kw_only=True):
    """A model with what became of it."""

    name: str
    source: str
    role: Role
    min: int
    max: int
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
