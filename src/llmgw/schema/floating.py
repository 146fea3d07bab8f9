"""The floating address: who has it, as each control plane sees it."""

from enum import StrEnum

from llmgw.schema.value import Value


class FloatingState(StrEnum):
    """Where the address is. The values are what people read."""

    ON_LEADER = "on the leader"
    NOWHERE = "nowhere"
    ELSEWHERE = "elsewhere"
    ON_TWO_HOSTS = "on two hosts"
    NOT_REACHABLE = "not reachable"
    ORPHANED = "orphaned"
    """On a host whose keepalived does not run: nobody will take it away when the leader changes."""
    UNKNOWN = "unknown"


class HostWord(Value, frozen=True, kw_only=True):
    """What one control plane says of its own host."""

    name: str
    has_address: bool
    """Its kernel has the address, whoever put it there."""
    keepalived: bool | None = None
    """keepalived runs on the host; `None` when that cannot be seen."""


class FloatingSeen(Value, frozen=True, kw_only=True):
    """All that is known of the address now."""

    address: str
    leader: str | None
    """Name of the control plane that leads."""
    hosts: tuple[HostWord, ...]
    """The control planes that answered."""
    silent: tuple[str, ...] = ()
    """Those that did not."""
    answered_by: str | None = None
    """Name of the control plane that answered **as a leader** through the address; `None` when none did."""
    macs: int | None = None
    """Machines that answer for the address on the link; `None` when it was not asked."""


class FloatingStatus(Value, frozen=True, kw_only=True):
    """What people are told."""

    address: str
    state: FloatingState
    hosts: tuple[str, ...] = ()
    """Control planes whose hosts have it."""
    up: bool = False
    """Something answered as a leader through it."""
    problem: str | None = None
