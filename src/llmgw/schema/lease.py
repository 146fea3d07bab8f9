"""The lease: the right to lead, and its fencing number."""

from datetime import datetime
from enum import StrEnum

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


class Standing(StrEnum):
    """Where a control plane stands with the lease."""

    STANDING_BY = "standing_by"
    LEADING = "leading"
    LAPSED = "lapsed"
    """It led, could not renew in time, and knows of nobody who took over: it neither writes nor orders."""
    STOPPED = "stopped"


class LeaseStatus(Value, frozen=True, kw_only=True):
    """The lease as one control plane sees it now."""

    standing: Standing
    epoch: int | None = None
    """Epoch this control plane last held or saw; `None` before the first answer of the store."""
    holder: str | None = None
    """Holder as last seen; `None` when nobody is known to hold the lease."""
    leader_name: str | None = None
    """Who leads, as last seen; `None` when nobody is known to, also while our own lease is lapsed."""
    leader_address: str | None = None
    renew_age_s: float | None = None
    """Seconds since the last renewal that succeeded was sent; `None` on a standby."""
    term: int = 0
    """How often this control plane has begun to lead: between two terms another may have led."""
    lapsed_s: float | None = None
    """Seconds since the lease lapsed; `None` unless it is lapsed."""
    store_problem: str | None = None
    """Why the last call to the store failed; `None` when it answered."""
    abstains: bool = False
    """It leaves the lease to others for now, whatever the row says."""
