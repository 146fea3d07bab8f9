"""The planner as the reconciler sees it: in this process for a small fleet, in a worker for a large one.

The reconciler never waits for a plan. It is given the last one that is ready, as far as the fleet did not move on
since, and the worker is asked for the next one whenever something changed.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from llmgw.core.offer import Offers
from llmgw.core.overtaken import still_true
from llmgw.core.plan_lint import lint
from llmgw.core.planner import plan
from llmgw.core.snapshot import Snapshot
from llmgw.ports import Clock
from llmgw.schema.plan import Plan
from llmgw.server.plan_process import PlanFailed
from llmgw.telemetry import log

SMALL_NODES = 32
SMALL_MODELS = 100
"""Up to so many of each a plan takes a few milliseconds, and needs no process of its own."""
AGAIN_S = 5.0
"""A large fleet that does not change is planned anew this often all the same: time alone ends some waits."""


class Worker(Protocol):
    """Plans elsewhere."""

    def differs(self, snapshot: Snapshot) -> bool:
        """True when a plan for `snapshot` could be another than the last one, time aside."""

    async def plan(self, snapshot: Snapshot) -> Plan:
        """Plan. Raises `PlanFailed`; the next call starts anew."""

    async def stop(self) -> None:
        """End it. The next plan starts another."""


NO_PLAN = Plan(judged=frozenset())

_log = log.get(__name__)


class PlanAhead:
    """Callable as a planner, from any thread; made on the loop that its worker is asked on."""

    def __init__(self, process: Worker, clock: Clock, wake: Callable[[], None]) -> None:
        """`wake` is called when a plan is ready."""
        self._process = process
        self._clock = clock
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._offers = Offers()
        self._ready: deque[tuple[Snapshot, Plan]] = deque(maxlen=1)
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def __call__(self, snapshot: Snapshot) -> Plan:
        """Give what is decided so far for the fleet as it is now."""
        if len(snapshot.nodes) <= SMALL_NODES and len(snapshot.models) <= SMALL_MODELS:
            return plan(snapshot, offers=self._offers)
        try:
            planned, made = self._ready.pop()
        except IndexError:
            standing = NO_PLAN
        else:
            standing = _standing(planned, made, snapshot)
        if not standing.placements and not standing.removals:
            # Else the fleet is about to be another one: the next turn asks for that.
            self._loop.call_soon_threadsafe(self._consider, snapshot)
        return standing

    async def stop(self) -> None:
        """End the worker."""
        task, self._asking = self._asking, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._ready.clear()
        self._asked_at = float("-inf")
        await self._process.stop()

    def _consider(self, snapshot: Snapshot) -> None:
        """Ask for a plan, unless one is being made or the last one was for the same fleet."""
        if self._asking is not None:
            return
        now = self._clock.monotonic()
        if now - self._asked_at >= AGAIN_S or self._process.differs(snapshot):
            self._asked_at = now
            self._asking = self._loop.create_task(self._ask(snapshot))

    async def _ask(self, snapshot: Snapshot) -> None:
        try:
            made = await self._made(snapshot)
        except Exception:  # noqa: BLE001 - a defect in one plan must not end planning; the next fleet may pass
            _log.exception("planner.broke")
            return
        finally:
            self._asking = None
        self._ready.append((snapshot, made))
        self._wake()

    async def _made(self, snapshot: Snapshot) -> Plan:
        try:
            return await self._process.plan(snapshot)
        except PlanFailed as error:
            _log.warning("planner.worker_failed", error=str(error))
        # In a thread, so that a machine on which no worker runs places its models all the same.
        return await asyncio.to_thread(plan, snapshot)


def _standing(planned: Snapshot, made: Plan, now: Snapshot) -> Plan:
    standing = still_true(made, planned, now)
    problems = lint(now, standing)
    if not problems:
        return standing
    broken = lint(planned, made)
    if broken:
        _log.error("planner.plan_unsound", problems=broken)
    else:
        _log.info("planner.plan_overtaken", problems=problems)
    return NO_PLAN
