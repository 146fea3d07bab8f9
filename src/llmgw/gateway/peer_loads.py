"""What other gateways have at each replica, as far as it helps to choose: smoothed, and gone with them."""

import math
from collections.abc import Iterable, Mapping
from typing import TypeVar

from llmgw.gateway.peer_records import PeerLoad

N = TypeVar("N", int, float)

EXPIRES_S = 3.0
"""A gateway tells its load each second, changed or not: who is silent for longer is gone, and its requests with it."""
SMOOTH_S = 5.0
"""Time in which a change of another's load is taken over, to two thirds. Gateways that go by each other's last word all
run to the replica that was least loaded a moment ago, and load it twice as much as the others; what lasts is what
they are to know of each other (tests/simulation/test_shared_load.py)."""
_LEAST = 0.01


class _Heard:
    __slots__ = ("at", "in_flight", "queued", "run", "sequence")

    def __init__(self, run: str, load: PeerLoad, at: float, in_flight: dict[str, float]) -> None:
        self.run = run
        self.sequence = load.sequence
        self.in_flight = in_flight
        """Smoothed."""
        self.queued = load.queued
        self.at = at


class PeerLoads:
    """Pure: clock readings come in. `at` and `now` are of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._heard: dict[str, _Heard] = {}

    def take(self, gateway: str, run: str, load: PeerLoad, *, at: float) -> bool:
        """Take a gateway's word. False for one that is not newer: that changes nothing."""
        before = self._heard.get(gateway)
        if before is None or before.run != run or at - before.at >= EXPIRES_S:
            self._heard[gateway] = _Heard(run, load, at, dict(load.in_flight))  # nothing to smooth it with
            return True
        if load.sequence <= before.sequence:
            return False
        share = 1 - math.exp((before.at - at) / SMOOTH_S)
        self._heard[gateway] = _Heard(run, load, at, _smoothed(before.in_flight, load.in_flight, share))
        return True

    def known(self, now: float) -> tuple[str, ...]:
        """Name the gateways whose word counts."""
        return tuple(sorted(name for name, one in self._heard.items() if now - one.at < EXPIRES_S))

    def elsewhere(self, now: float) -> dict[str, int]:
        """Give the requests of all other gateways together, by replica, in whole requests: equals stay equal."""
        self._heard = {name: one for name, one in self._heard.items() if now - one.at < EXPIRES_S}
        found = total(one.in_flight for one in self._heard.values())
        return {replica: whole for replica, load in found.items() if (whole := round(load))}

    def queued(self, now: float) -> dict[str, int]:
        """Give the bytes of prompts of all other gateways that are not computed yet, by replica, as told last."""
        return total(one.queued for one in self._heard.values() if now - one.at < EXPIRES_S)


def total(parts: Iterable[Mapping[str, N]]) -> dict[str, N]:
    """Sum up requests by replica."""
    found: dict[str, N] = {}
    for part in parts:
        for replica, count in part.items():
            found[replica] = count + found[replica] if replica in found else count
    return found


def _smoothed(before: Mapping[str, float], now: Mapping[str, int], share: float) -> dict[str, float]:
    moved = {one: before.get(one, 0.0) + (now.get(one, 0) - before.get(one, 0.0)) * share for one in {**before, **now}}
    return {replica: load for replica, load in moved.items() if load >= _LEAST}
