"""The audit of guardrails: the last coverage records that gateways told, kept in memory."""

from collections import deque
from collections.abc import Iterable

from llmgw.schema.demand import AuditEntry

KEPT = 5000
"""Records that are kept; about 5 MB."""
_UNTOLD = 1000
"""Records that wait to be told to the leader, at most."""


class AuditLog:
    """The newest records. A control plane that stands by also keeps what it has yet to tell the leader."""

    def __init__(self) -> None:
        self._entries: deque[AuditEntry] = deque(maxlen=KEPT)
        self._untold: deque[AuditEntry] = deque(maxlen=_UNTOLD)

    def take(self, entries: Iterable[AuditEntry]) -> None:
        """Take in what a gateway told; each record comes once."""
        for entry in entries:
            self._entries.append(entry)
            self._untold.append(entry)

    def newest(self) -> tuple[AuditEntry, ...]:
        """Give all that is kept, newest first."""
        return tuple(sorted(self._entries, key=lambda entry: entry.at, reverse=True))

    def untold(self) -> tuple[AuditEntry, ...]:
        """Give what the leader was not told yet, and count it as told."""
        given = tuple(self._untold)
        self._untold.clear()
        return given
