"""How fast a queue moves, for an honest word on when to come again."""

from collections import deque

KEPT = 32
"""Ends that are looked at: the rate of some seconds, or minutes, whichever it takes."""
LEAST_S, MOST_S = 1, 60
"""SDKs take no word above 60 s for one; 0 would have them come at once."""


class Pace:
    """Ends of requests, as they come."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends: deque[float] = deque(maxlen=KEPT)

    def ended(self, now: float) -> None:
        """Note that a request ended and made room."""
        self._ends.append(now)

    def wait_s(self, ahead: int, now: float) -> int | None:
        """Give the whole seconds until `ahead` requests will have had their turn; `None` where nothing ended lately."""
        if len(self._ends) < 2:  # noqa: PLR2004 (one end has no rate)
            return None
        each_s = (now - self._ends[0]) / len(self._ends)
        return min(max(round(ahead * each_s), LEAST_S), MOST_S)
