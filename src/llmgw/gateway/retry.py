"""How often requests may be tried again: a share of all requests, so that a sick fleet is not asked thrice as much."""

_SHARE = 0.2
_MOST = 20.0
_FIRST = 10.0
"""Retries allowed before there was any traffic to take a share of."""


class RetryBudget:
    """Each request adds a fifth of a retry, up to twenty."""

    def __init__(self) -> None:
        self._left = _FIRST

    def earn(self) -> None:
        """Count a request."""
        self._left = min(_MOST, self._left + _SHARE)

    def spend(self) -> bool:
        """Take one retry; False when there is none left."""
        if self._left < 1:
            return False
        self._left -= 1
        return True
