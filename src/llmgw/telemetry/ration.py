"""How often a log tells what anybody on the network can bring about."""

import time

MOST = 30
WITHIN_S = 60.0


class Ration:
    """Lets so many lines through in a time, and counts the others."""

    def __init__(self, *, most: int = MOST, within_s: float = WITHIN_S) -> None:
        self._most = most
        self._within_s = within_s
        self._since = time.monotonic()
        self._told = 0
        self._untold = 0

    def take(self) -> int | None:
        """Give how many lines were left out since the last one that was not; `None`: leave this one out too."""
        now = time.monotonic()
        if now - self._since >= self._within_s:
            self._since, self._told = now, 0
        if self._told >= self._most:
            self._untold += 1
            return None
        untold, self._untold = self._untold, 0
        self._told += 1
        return untold
