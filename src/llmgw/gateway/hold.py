"""Holding requests for models that start on demand: how long, how many bytes, and what streams are told meanwhile."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from llmgw.core.routing import Prompt
from llmgw.gateway.admit import Admission
from llmgw.gateway.ask import Ask
from llmgw.gateway.call import Call
from llmgw.gateway.errors import overloaded
from llmgw.gateway.place import Place
from llmgw.gateway.routes_view import LiveRoute

READ_MARGIN_S = 5.0
"""An answer must come so long before the client gives up reading."""
LEAST_HOLD_S = 1.0

_READ_TIMEOUT = b"x-stainless-read-timeout"
"""Seconds after which the SDKs that send it give up."""


class Holder:
    """One worker's held requests. `hold_s` bounds those that are not streamed, `comment_s` is the pace of comments."""

    def __init__(self, admission: Admission, *, hold_s: float, comment_s: float, max_bytes: int) -> None:
        self._admission = admission
        self._hold_s = hold_s
        self._comment_s = comment_s
        self._max_bytes = max_bytes
        self._bytes = 0

    async def enter(self, call: Call, ask: Ask, route: LiveRoute, prompt: Prompt, tried: frozenset[str]) -> Place:
        """Get a place, waiting for a first replica where one can be started. Raises `ApiError` as `Admission` does."""
        if route.targets or route.hold_s is None:
            return await self._admission.enter(route, prompt, tried=tried)
        hold_s = route.hold_s if ask.streams else self._plain_s(call, route.hold_s)
        with self._counted(call, route.model), self._commented(call, ask, route):
            return await self._admission.enter(route, prompt, tried=tried, hold_s=hold_s)

    def _plain_s(self, call: Call, start_s: float) -> float:
        told = call.exchange.request.header(_READ_TIMEOUT)
        try:
            patience = float(told) - READ_MARGIN_S if told is not None else self._hold_s
        except ValueError:
            patience = self._hold_s
        return max(LEAST_HOLD_S, min(self._hold_s, patience, start_s))

    @contextlib.contextmanager
    def _counted(self, call: Call, model: str) -> Iterator[None]:
        size = len(call.exchange.request.body)
        if self._bytes + size > self._max_bytes:
            raise overloaded(model, waiting=self._admission.waiting(model))
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size

    @contextlib.contextmanager
    def _commented(self, call: Call, ask: Ask, route: LiveRoute) -> Iterator[None]:
        """Tell a stream now and then that its model is on the way: proxies and clients give up on silence."""
        if not ask.streams:
            yield
            return
        ticking = _Ticking(self._comment_s, lambda: call.comment(self._progress(route)))
        try:
            yield
        finally:
            ticking.stop()

    def _progress(self, route: LiveRoute) -> str:
        return f"starting {route.model}: {self._admission.now(route).unavailable or 'it is ready'}"


class _Ticking:
    """Calls `tick` every so many seconds until stopped."""

    def __init__(self, every_s: float, tick: Callable[[], None]) -> None:
        self._every_s = every_s
        self._tick = tick
        self._next = asyncio.get_running_loop().call_later(every_s, self._run)

    def stop(self) -> None:
        self._next.cancel()

    def _run(self) -> None:
        self._next = asyncio.get_running_loop().call_later(self._every_s, self._run)
        self._tick()
