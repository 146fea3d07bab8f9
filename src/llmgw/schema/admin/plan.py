"""What the control plane would do now."""

from llmgw.schema.plan import Placement, Removal, Shortfall
from llmgw.schema.value import Value


class PlanAnswer(Value, frozen=True, kw_only=True):
    """`GET /api/v1/plan`. The leader carries its plans out at once: what is told here is under way already."""

    placements: tuple[Placement, ...] = ()
    removals: tuple[Removal, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    changes: int
    """Replicas that would be started or stopped."""
    hurts: tuple[str, ...] = ()
    """Who would have fewer replicas ready than it should, in words."""
    text: str
    """The same for people, one line a change."""
