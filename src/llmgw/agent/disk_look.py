"""Keeps an eye on the disk of the agent's folder: tells that it is full, and writes what waits once it is not."""

import asyncio
from collections.abc import Callable

from llmgw.agent.local_state import LocalState

LOOK_S = 2.0


class DiskLook:
    """Looks again and again. `tell` is given what is wrong, in words, or `None`."""

    def __init__(self, state: LocalState, tell: Callable[[str | None], None]) -> None:
        self._state = state
        self._tell = tell

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        """Look once."""
        self._state.retry()
        self._tell(self._state.problem())
