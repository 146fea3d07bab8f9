"""Audit: coverage records on their way to the control plane, the newest of them where there are too many."""

from collections import deque
from collections.abc import Iterable

from llmgw.schema.demand import AuditEntry

MOST = 1000
"""Records kept while nobody takes them."""
AT_ONCE = 200
"""Records of one report, which must stay a small message."""


class Audit:
    """A bounded list of records. Each is given once."""

    def __init__(self) -> None:
        self._entries: deque[AuditEntry] = deque(maxlen=MOST)

    def add(self, entries: Iterable[AuditEntry]) -> None:
        """Take records; the oldest make room."""
        self._entries.extend(entries)

    def take(self) -> tuple[AuditEntry, ...]:
        """Give some records, the oldest first, and forget them."""
        return tuple(self._entries.popleft() for _ in range(min(AT_ONCE, len(self._entries))))
