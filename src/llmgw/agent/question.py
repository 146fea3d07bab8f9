"""Questions to the operating system that may hang for hours: a file server that is gone answers nothing."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from llmgw.agent import off_loop

T = TypeVar("T")


class Question(Generic[T]):
    """One question, asked in a thread of its own, and not again before it was answered.

    So what hangs costs one thread, however often somebody wants to know, and is waited for only once.
    """

    def __init__(self, ask: Callable[[], T], *, name: str, within_s: float, came_late: Callable[[], None]) -> None:
        self._ask = ask
        self._name = name
        self._within_s = within_s
        self._came_late = came_late
        self._asked: asyncio.Future[T] | None = None
        self._is_late = False

    async def answer(self) -> T:
        """Give the answer, or raise what `ask` raised. Raises `TimeoutError` while there is none.

        An answer that comes later is announced by `came_late`, and given to whoever asks next.
        """
        if self._asked is None:
            self._asked, self._is_late = off_loop.call(self._ask, name=self._name), False
        asked = self._asked
        if not self._is_late:
            await asyncio.wait({asked}, timeout=self._within_s)
        if asked.done():
            self._asked = None
            return asked.result()
        if not self._is_late:
            self._is_late = True
            asked.add_done_callback(self._arrived)
        raise TimeoutError(self._name)

    def _arrived(self, asked: asyncio.Future[T]) -> None:
        if not asked.cancelled():
            self._came_late()
