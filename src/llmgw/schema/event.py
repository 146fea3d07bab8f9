"""Events: what happened, told to operators."""

from datetime import datetime
from enum import StrEnum

from llmgw.schema.value import Value


class Severity(StrEnum):
    """How much an event matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Event(Value, frozen=True, kw_only=True):
    """One thing that happened. `seq` is given by the store."""

    at: datetime
    kind: str
    """Stable name such as `replica.restarted`."""
    severity: Severity
    message: str
    node: str | None = None
    model: str | None = None
    replica: str | None = None
    actor: str | None = None
    """Id of the admin token behind it; `None` for the system itself."""
    seq: int | None = None
