"""A clock that moves only when told."""

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Starts at an odd offset, so that mixing monotonic and wall time fails at once."""

    def __init__(self) -> None:
        self._monotonic = 7_919.5
        self._now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment."""
        return self._monotonic

    def now(self) -> datetime:
        """Give the wall time, aware, in UTC."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._monotonic += seconds
        self._now += timedelta(seconds=seconds)
