"""The hearing clock: monotonic time less the time in which this process's loop was too late to hear anybody."""

import asyncio
from datetime import datetime

from llmgw.core.hearing import LONGEST_BEAT_S, Hearing
from llmgw.ports import Clock

BEAT_S = LONGEST_BEAT_S / 2


class HearingClock:
    """A `Clock` whose monotonic side stands still while the loop is late. For stamps and ages of what was heard."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hearing = Hearing(heard_s=0.0, beat_at=clock.monotonic())

    def monotonic(self) -> float:
        """Seconds of hearing."""
        return self._hearing.at(self._clock.monotonic())

    def now(self) -> datetime:
        """Give the wall time, aware, in UTC."""
        return self._clock.now()

    def beat(self) -> None:
        """Note that the loop turned."""
        self._hearing = self._hearing.beat(self._clock.monotonic())

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self.beat()
            await asyncio.sleep(BEAT_S)
