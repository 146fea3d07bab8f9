"""Calls that may block for long, such as those on a file server that is gone, in threads nobody waits for at exit."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def call(function: Callable[[], T], *, name: str) -> asyncio.Future[T]:
    """Run `function` in a daemon thread. The answer of a call that nobody waits for any more is dropped."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # no error: the result is there

    def work() -> None:
        result, problem = None, None
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - carried to the caller
            problem = error
        try:
            loop.call_soon_threadsafe(deliver, result, problem)
        except RuntimeError:
            return  # the loop has ended meanwhile

    threading.Thread(target=work, name=name, daemon=True).start()
    return future
