"""What the fleet's working copy asks others, as Protocols."""

from typing import Protocol

from llmgw.schema.lease import Fence, LeaseStatus
from llmgw.schema.link import LogReply
from llmgw.schema.summary import ControlPlaneMember


class Lease(Protocol):
    """The right to lead, as the lease's thread knows it. Every answer is a clock comparison at the moment of asking."""

    def is_leader(self) -> bool:
        """True while this process may lead."""

    def fence(self) -> Fence | None:
        """Give what every write must carry; `None` unless this process leads now."""

    def status(self) -> LeaseStatus:
        """Say who leads, with which epoch, and how old the last renewal is."""

    def raise_epoch(self, at_least: int) -> None:
        """Lead with an epoch of `at_least` or more, soon."""

    def step_down(self, for_s: float) -> None:
        """Let go of the right at once, and leave it to others for `for_s` seconds."""


class MemberSource(Protocol):
    """The control planes of this cluster, as the background polls know them."""

    def described(self, lease: LeaseStatus) -> tuple[ControlPlaneMember, ...]:
        """Say of each what it does now."""

    async def forget(self, name: str) -> None:
        """Forget one that is gone. Raises `NotFound`, `Conflict`, `StoreUnavailable`."""


class LogSource(Protocol):
    """Reads logs of engines over the agents' streams."""

    async def read_log(self, shard: str, *, node: str, attempt: int | None, tail_bytes: int) -> LogReply:
        """Ask the node's agent. Raises `NotFound` when it is not connected or does not answer in time."""
