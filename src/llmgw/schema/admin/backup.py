"""Backup and restore as operators see them."""

from datetime import datetime

from llmgw.schema.key import AdminRole
from llmgw.schema.value import Value


class Login(Value, frozen=True, kw_only=True):
    """A token that opens the API now."""

    id: str
    name: str
    role: AdminRole


class Restored(Value, frozen=True, kw_only=True):
    """What a restore did."""

    taken_at: datetime
    """When the backup was taken."""
    taken_by: str
    epoch: int
    """Epoch of this control plane now: above the backup's."""
    rows: dict[str, int]
    """Rows by table."""
    logins: tuple[Login, ...]
    """Operators' tokens that are good now: the backup's, and the first one of this control plane's credentials file."""
    your_token_works: bool
    restarts: bool
    """This control plane ends itself now, to be started again with the backup's certificate authority."""


class Resumed(Value, frozen=True, kw_only=True):
    """Whether there was anything to resume."""

    was_observing: bool
