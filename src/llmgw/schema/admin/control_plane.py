"""Control planes as operators see them."""

from typing import Annotated

from msgspec import Meta

from llmgw.schema.summary import ControlPlaneMember
from llmgw.schema.value import Value

MAX_STEP_DOWN_S = 3600.0


class ControlPlaneList(Value, frozen=True, kw_only=True):
    """`GET /api/v1/control-planes`, by name."""

    control_planes: tuple[ControlPlaneMember, ...]
    epoch: int | None = None
    """Fencing number of who leads, or led last."""


class StepDown(Value, frozen=True, kw_only=True):
    """How long the leader stays a standby after it let go."""

    seconds: Annotated[float, Meta(ge=1, le=MAX_STEP_DOWN_S)] = 30.0


class SteppedDown(Value, frozen=True, kw_only=True):
    """Who let go, and who may take over."""

    stepped_down: str
    seconds: float
    standing_by: tuple[str, ...]
