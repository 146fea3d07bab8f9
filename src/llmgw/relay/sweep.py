"""One coarse timer for many deadlines."""

import asyncio
import math
from typing import Protocol

NEVER = math.inf
"""A deadline that does not come."""

PERIOD_S = 0.5
"""How late a deadline may be noticed. A sweep over 4,096 connections costs below 1 ms."""


class Swept(Protocol):
    """Something with deadlines of its own."""

    def check(self, now: float) -> None:
        """Act on deadlines that passed; `now` is the loop's time."""


class Sweep:
    """Calls `check` of each member twice a second, so that no event needs a timer of its own.

    Runs only while it has members.
    """

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._members: set[Swept] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, member: Swept) -> None:
        """Watch `member` from now on."""
        self._members.add(member)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._period_s, self._turn)

    def discard(self, member: Swept) -> None:
        """Forget `member`; no-op when it is not watched."""
        self._members.discard(member)
        if not self._members and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._period_s, self._turn)
        now = loop.time()
        for member in tuple(self._members):
            member.check(now)
