"""The real clock."""

import time
from datetime import UTC, datetime


class SystemClock:
    """Time of this machine. Monotonic time includes suspended time, so that a thawed machine knows it slept."""

    def monotonic(self) -> float:
        """Seconds on CLOCK_BOOTTIME."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> datetime:
        """Give the wall time, aware, in UTC."""
        return datetime.now(UTC)
