"""Parking: back-off between failed starts of a model, and giving up on it.

Invariants: a cause in the environment (`counts=False`) never parks; a cause that cannot heal parks at once;
a parked model stays parked until an operator unparks it or changes it, never by time. A start counts as good only
once its replica has been ready for a while: engines that get ready and die, again and again, end parked too.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from llmgw.schema.model import ModelStatus, NodeFailure, Parked
from llmgw.schema.report import Death
from llmgw.schema.value import Value

REMEMBERED = timedelta(hours=1)
"""A failure on a node speaks against it for so long."""
KEPT_FAILURES = 10


class BackoffPolicy(Value, frozen=True, kw_only=True):
    """How long to wait between failed starts, and how many there may be."""

    base_s: float
    """Seconds after the first failure; doubles with each further one."""
    max_s: float
    park_after: int
    """Consecutive failed starts after which a model is parked."""
    steady_s: float = 60.0
    """Seconds a replica must be ready for its start to count as good. Crashes for want of memory or of a broken card
    come with the first requests; later ones are deaths of their own."""


def after_failure(status: ModelStatus, death: Death, policy: BackoffPolicy, now: datetime) -> ModelStatus:
    """Give the status after a failed start."""
    status = msgspec.structs.replace(status, last_failure=death.cause)
    if status.parked is not None:
        return status
    failures = status.failures + 1
    if not death.counts:
        # It never parks, so it may last for days: the pause grows with the failures seen lately, whatever their cause.
        seen = max(failures, len(recent(status.failed_on, now)))
        return msgspec.structs.replace(status, retry_at=now + delay(seen, policy))
    if not death.heals or failures >= policy.park_after:
        parked = Parked(failures=failures, reason=death.cause, since=now)
        return msgspec.structs.replace(status, failures=failures, retry_at=None, parked=parked)
    return msgspec.structs.replace(status, failures=failures, retry_at=now + delay(failures, policy))


def after_success(status: ModelStatus) -> ModelStatus:
    """Give the status after a good start. A parked model stays parked: one good start mends no other."""
    return msgspec.structs.replace(status, failures=0, retry_at=None, last_failure=None)


def after_early_death(status: ModelStatus, death: Death, policy: BackoffPolicy, now: datetime) -> ModelStatus:
    """Give the status after a replica died before its start counted as good.

    It counts as a failed start, but the first attempt after the death of a ready replica is immediate: only when
    starts failed before does the next one wait.
    """
    after = after_failure(status, death, policy, now)
    return after if status.failures else msgspec.structs.replace(after, retry_at=None)


def after_failure_on(status: ModelStatus, node: str, now: datetime) -> ModelStatus:
    """Give the status with one more failure on a node: another replica had better go elsewhere for a while.

    Whatever the cause: that of the environment is one of this node as well.
    """
    failed_on = (*recent(status.failed_on, now), NodeFailure(node=node, at=now))[-KEPT_FAILURES:]
    return msgspec.structs.replace(status, failed_on=failed_on)


def recent(failures: Iterable[NodeFailure], now: datetime) -> tuple[NodeFailure, ...]:
    """Give those of the last hour."""
    return tuple([failure for failure in failures if now - failure.at < REMEMBERED])


def unparked(status: ModelStatus) -> ModelStatus:
    """Give the status after an operator's unpark: everything may be tried again, at once."""
    return msgspec.structs.replace(status, failures=0, retry_at=None, parked=None)


def for_revision(status: ModelStatus, revision: int) -> ModelStatus:
    """Give the status that belongs to a revision: a changed model starts anew."""
    return status if status.revision == revision else ModelStatus(model=status.model, revision=revision)


def delay(failures: int, policy: BackoffPolicy) -> timedelta:
    """Give the pause after so many consecutive failures, counted from 1."""
    doublings = min(failures - 1, 32)  # far beyond any sensible ceiling, and no overflow
    return timedelta(seconds=min(policy.max_s, policy.base_s * 2.0**doublings))
