"""The lease: the right to lead, and its fencing number."""

from datetime import datetime

from llmgw.schema.value import Value


class LeaseRow(Value, frozen=True, kw_only=True):
    """The one lease row of a cluster."""

    holder: str
    """Unique per process start, so that a restarted process is another holder."""
    epoch: int
    """Fencing number; grows with each takeover, never back."""
    beat: int
    """Grows with each renewal: standbys watch (epoch, beat) for silence."""
    released: bool
    name: str
    """The holder's control-plane name, for people."""
    address: str
    """Where the holder's API answers."""
    renewed_at: datetime
    """For people only; no decision compares it with a clock."""


class Fence(Value, frozen=True, kw_only=True):
    """What every write of a leader carries."""

    epoch: int
    holder: str
