"""Admission: a place at a replica, or a place in the queue for one."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from llmgw.core.pace import Pace
from llmgw.core.routing import Prompt, choose
from llmgw.gateway.errors import ApiError, model_not_found, model_starting, model_unavailable, overloaded
from llmgw.gateway.permits import Grant, LocalPermits, Recall, Returned, Want
from llmgw.gateway.place import Place
from llmgw.gateway.routes_view import LiveRoute, LiveView, Target

START_MARGIN = 10.0
"""How much longer than most starts the deadline is: what clients are told to wait is a start, not its deadline."""

_NOBODY: frozenset[str] = frozenset()


class _Waiter:
    __slots__ = ("future", "hold_s", "prompt", "since", "tried")

    def __init__(
        self,
        future: "asyncio.Future[Place]",
        prompt: Prompt,
        tried: frozenset[str],
        since: float,
        hold_s: float | None,
    ) -> None:
        self.future = future
        self.hold_s = hold_s
        """Seconds it may wait for a first replica; `None` for one that waits for a slot."""
        self.prompt = prompt
        self.tried = tried
        self.since = since


class Admission:
    """One worker's gate: bounded first-in-first-out queues, one per model. `send` takes messages to the master."""

    def __init__(
        self,
        view: LiveView,
        permits: LocalPermits,
        send: Callable[[Want | Returned], None],
        *,
        queue_per_model: int,
        queue_timeout_s: float,
        on_hold: Callable[[], None] = lambda: None,
        on_place: Callable[[Place], None] | None = None,
    ) -> None:
        self._view = view
        self._permits = permits
        self._send = send
        self._limit = queue_per_model
        self._timeout_s = queue_timeout_s
        self._on_hold = on_hold
        self._on_place = on_place
        """Told of each place that is taken, where others want to know."""
        self._queues: dict[str, deque[_Waiter]] = {}
        self._told: dict[str, int] = {}
        self._paces: dict[str, Pace] = {}

    async def enter(
        self, route: LiveRoute, prompt: Prompt, *, tried: frozenset[str] = _NOBODY, hold_s: float | None = None
    ) -> Place:
        """Get a place at a replica of `route` that is not in `tried`, waiting for one if need be.

        With `hold_s` it waits so long for a first replica too, as long as one may still start. Raises `ApiError`: 503
        when nothing serves the model, 429 when the queue is full or the wait too long.
        """
        queue = self._queues.get(route.model)
        if not queue:
            place = self._try(route, prompt, tried)
            if place is not None:
                return place
        if not route.targets and hold_s is None:
            raise model_unavailable(route.model, route.unavailable)
        if queue is not None and len(queue) >= self._limit:
            raise self._overloaded(route.model)
        return await self._wait(route.model, prompt, tried, None if route.targets else hold_s)

    def granted(self, grant: Grant) -> None:
        """Take in permits from the master."""
        owed = self._permits.granted(grant)
        if owed is not None:
            self._send(owed)
        # The master took the grant off what we want; if it went to pay a debt, it must hear of us again.
        self._told = dict.fromkeys(self._told, -1)
        self.pump_all()

    def recalled(self, recall: Recall) -> None:
        """Give permits back to the master, now or as requests end."""
        self._send(self._permits.recalled(recall))

    def pump_all(self) -> None:
        """Look at all queues anew: permits or the view changed."""
        for model in tuple(self._queues):
            self.pump(model)

    def pump(self, model: str) -> None:
        """Let waiting requests in, first come first served, as far as there are places."""
        queue = self._queues.get(model)
        if queue is None:
            return
        route = self._view.route(model)
        for waiter in tuple(queue):
            if waiter.future.done():
                continue
            if route is None:
                waiter.future.set_exception(model_not_found(model))
                continue
            if waiter.hold_s is not None and not route.targets and route.hold_s is None:
                waiter.future.set_exception(model_unavailable(model, route.unavailable))
                continue
            place = self._try(route, waiter.prompt, waiter.tried)
            if place is not None:
                queue.remove(waiter)
                waiter.future.set_result(place)
            elif not waiter.tried:
                break
        self._tell(model)

    def now(self, route: LiveRoute) -> LiveRoute:
        """Give a model's route as it is now; as it was for a model that is gone."""
        return self._view.route(route.model) or route

    def waiting(self, model: str) -> int:
        """Requests that wait for a place now."""
        return len(self._queues.get(model, ()))

    def oldest_wait_s(self, model: str, now: float) -> float | None:
        """Seconds the longest waiting request has waited; `None` when none waits."""
        queue = self._queues.get(model)
        return now - queue[0].since if queue else None

    def _try(self, route: LiveRoute, prompt: Prompt, tried: frozenset[str]) -> Place | None:
        permits = self._permits

        def usable(target: Target) -> bool:
            return (target.slots is None or permits.free(target.pool) > 0) and target.id not in tried

        habits = route.habits
        target = choose(
            route.targets,
            prompt,
            now=time.monotonic(),
            usable=usable,
            routing=route.routing,
            usual=habits.usual,
            turn=habits.turn,
        )
        if target is None:
            return None
        limited = target.slots is not None
        if limited:
            permits.take(target.pool)
        place = Place(target, prompt, self._left_slot if limited else self._left)
        habits.chosen(place.own)
        if self._on_place is not None:
            self._on_place(place)
        return place

    def _left(self, place: Place) -> None:
        if place.target.model in self._queues:
            self.pump(place.target.model)

    def _left_slot(self, place: Place) -> None:
        owed = self._permits.release(place.target.pool)
        if owed is not None:
            self._send(owed)
        pace = self._paces.get(place.target.model) or self._paces.setdefault(place.target.model, Pace())
        pace.ended(time.monotonic())
        self._left(place)

    def _overloaded(self, model: str, *, waited_s: float | None = None) -> ApiError:
        waiting, pace = self.waiting(model), self._paces.get(model)
        again_s = None if pace is None else pace.wait_s(waiting, time.monotonic())
        return overloaded(model, waiting=waiting, waited_s=waited_s, retry_after_s=again_s)

    async def _wait(self, model: str, prompt: Prompt, tried: frozenset[str], hold_s: float | None) -> Place:
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop.create_future(), prompt, tried, time.monotonic(), hold_s)
        self._queues.setdefault(model, deque()).append(waiter)
        self._tell(model)
        if hold_s is not None and len(self._queues[model]) == 1:
            self._on_hold()
        deadline = loop.call_later(self._timeout_s if hold_s is None else hold_s, self._expire, model, waiter)
        try:
            return await waiter.future
        except asyncio.CancelledError:
            if waiter.future.done() and not waiter.future.cancelled() and waiter.future.exception() is None:
                with waiter.future.result():  # granted in the moment it was cancelled: back it goes
                    raise
            raise
        finally:
            deadline.cancel()
            self._forget(model, waiter)

    def _expire(self, model: str, waiter: _Waiter) -> None:
        if waiter.future.done():
            return
        route = self._view.route(model)
        waited_s = self._timeout_s if waiter.hold_s is None else waiter.hold_s
        error = self._overloaded(model, waited_s=waited_s)
        if route is not None and not route.targets:
            error = model_unavailable(model, route.unavailable)
            if route.hold_s is not None and waiter.hold_s is not None:
                retry_after_s = round(min(max(route.hold_s / START_MARGIN, 5), 60))
                error = model_starting(model, route.unavailable, waited_s=waited_s, retry_after_s=retry_after_s)
        waiter.future.set_exception(error)

    def _forget(self, model: str, waiter: _Waiter) -> None:
        queue = self._queues.get(model)
        if queue is None:
            return
        if waiter in queue:
            queue.remove(waiter)
        self._tell(model)
        if not queue:
            del self._queues[model]

    def _tell(self, model: str) -> None:
        count = len(self._queues.get(model, ()))
        if self._told.get(model, 0) == count:
            return
        if count:
            self._told[model] = count
        else:
            self._told.pop(model, None)
        self._send(Want(model=model, count=count))
