"""Whether a replica is left out of choices for a while, by what became of requests to it. Pure: clock readings come in.

Only what says that the replica is sick counts: no connection, a connection that breaks before an answer, an answer of
5xx. Never a client's error, and "too many requests" only for the moment: busy is not sick.
"""

BASE_S = 0.5
"""Seconds it is left out the first time; doubles with each further failure."""
MAX_S = 10.0
STUMBLES = 3
"""So many requests in a row must break or end as 5xx: one alone may be the request's own fault."""
PROBE_S = 2.0
"""Once the time is over one request tries it; others stay away until that one is answered, for so long at most."""
FULL_MAX_S = 2.0
"""Whatever a replica without room says of when to come again: it may have room much sooner."""
_DOUBLINGS = 8


class Breaker:
    """One replica's: closed (`ejected_until` 0), open, or half open (its time is over, and nobody was answered yet)."""

    __slots__ = ("_stumbles", "ejected_until", "strikes")

    def __init__(self) -> None:
        self.ejected_until = 0.0
        """Until when it is left out, where there are others."""
        self.strikes = 0
        """Times it was left out since it answered last."""
        self._stumbles = 0

    def failed(self, now: float) -> None:
        """Note that it cannot be reached: it is left out at once."""
        self.strikes += 1
        self._stumbles = 0
        self.ejected_until = now + min(BASE_S * 2 ** min(self.strikes - 1, _DOUBLINGS), MAX_S)

    def stumbled(self, now: float) -> None:
        """Note a request that broke before its answer, or ended as 5xx; a probe that does leaves it out again."""
        self._stumbles += 1
        if self.strikes or self._stumbles >= STUMBLES:
            self.failed(now)

    def full(self, now: float, seconds: float | None) -> None:
        """Note that it has no room now, and when it will, as far as it said: it is not sick, others are asked first."""
        self.ejected_until = max(self.ejected_until, now + min(BASE_S if seconds is None else seconds, FULL_MAX_S))

    def tried(self, now: float) -> None:
        """Note that a request goes there: while it is half open no other one does."""
        if self.strikes:
            self.ejected_until = max(self.ejected_until, now + PROBE_S)

    def answered(self) -> None:
        """Note a good answer: all is forgotten."""
        self.ejected_until = 0.0
        self.strikes = self._stumbles = 0
