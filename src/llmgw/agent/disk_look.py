"""Keeps an eye on the agent's folder: tells that its disk is full or its certificate ends, and writes what waits."""

import asyncio
from collections.abc import Callable

from llmgw.agent.local_state import LocalState

LOOK_S = 2.0


class DiskLook:
    """Looks again and again. `tell` is given what is wrong, in words; `certificate` says what is wrong with that."""

    def __init__(
        self,
        state: LocalState,
        tell: Callable[[tuple[str, ...]], None],
        certificate: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._state = state
        self._certificate = certificate
        self._tell = tell

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        """Look once."""
        self._state.retry()
        found = (self._state.problem(), self._certificate())
        self._tell(tuple(problem for problem in found if problem is not None))
