"""Events as operators read them."""

from llmgw.schema.event import Event
from llmgw.schema.value import Value


class EventList(Value, frozen=True, kw_only=True):
    """`GET /api/v1/events`, newest first."""

    events: tuple[Event, ...]
    next: int | None = None
    """Give it as `before` for older events; absent when there are none."""
