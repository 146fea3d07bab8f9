"""Events: what happened, newest first."""

from llmgw.ports import Store
from llmgw.schema.admin.event import EventList
from llmgw.schema.errors import InvalidInput

MAX_LIMIT = 1000
MAX_SEQ = 2**63 - 1
"""The largest number that stores keep."""


async def recent(store: Store, *, limit: int, before: int | None = None) -> EventList:
    """Read `limit` events older than `before`. Raises `StoreUnavailable`."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"limit must be between 1 and {MAX_LIMIT}", field="limit", allowed=(f"1..{MAX_LIMIT}",))
    if before is not None and not 1 <= before <= MAX_SEQ:
        raise InvalidInput(f"before must be between 1 and {MAX_SEQ}", field="before", allowed=(f"1..{MAX_SEQ}",))
    # One more than asked for tells whether there are older ones.
    events = await store.load_events(limit=limit + 1, before=before)
    shown = events[:limit]
    return EventList(events=shown, next=shown[-1].seq if len(events) > limit else None)
