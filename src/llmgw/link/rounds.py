"""In which order an agent dials its control planes, and how long it pauses between two rounds. No I/O."""

from collections.abc import Sequence

QUICK_S = 30.0
QUICK_DELAY_S = 0.5
SLOW_DELAY_S = 2.0
HUNG_S = 5.0
"""How long an address is passed over that did not answer at all: each try of a machine that is off costs seconds."""


def redial_delay(alone_s: float, jitter: float) -> float:
    """Seconds to wait before the next round, `alone_s` after the last stream ended; `jitter` is from 0 to 1."""
    if alone_s < QUICK_S:
        return QUICK_DELAY_S * jitter
    return QUICK_DELAY_S + (SLOW_DELAY_S - QUICK_DELAY_S) * jitter


class Rounds:
    """One round dials each address once, without a pause; whoever is said to lead comes next."""

    def __init__(self) -> None:
        self._left: list[str] = []
        self._tried: set[str] = set()
        self._last: str | None = None
        self._hung: dict[str, float] = {}

    def begin(self, addresses: Sequence[str], now: float) -> None:
        """Begin a round. The one that served last comes last: it is the least likely to lead."""
        self._hung = {address: until for address, until in self._hung.items() if until > now}
        ordered = sorted(dict.fromkeys(addresses), key=lambda address: address == self._last)
        self._left = [address for address in ordered if address not in self._hung] or ordered
        self._tried = set()

    def next(self) -> str | None:
        """Give the next address to dial; `None` at the end of the round."""
        if not self._left:
            return None
        address = self._left.pop(0)
        self._tried.add(address)
        return address

    def served(self, address: str) -> None:
        """A stream to this address came about, and has ended: the round is over."""
        self._last = address
        self._left = []

    def hung(self, address: str, now: float) -> None:
        """Nothing answered there in time."""
        self._hung[address] = now + HUNG_S

    def leads(self, address: str) -> None:
        """A standby named this address as the leader's: it is dialled next, unless it was in this round."""
        if address not in self._tried:
            self._left = [address, *(one for one in self._left if one != address)]
