"""Leading and standing by: what this control plane does as the lease comes and goes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from llmgw.core.lease import holds_on
from llmgw.schema.errors import Fenced, LlmgwError, NoLeader, StoreUnavailable
from llmgw.schema.lease import LeaseStatus, Standing
from llmgw.telemetry import log

LOOK_S = 0.1
"""Longest pause between two looks at the lease: leading ends by the clock, without anybody telling."""
FOLLOW_S = 0.5
"""How often a standby asks whether the rows changed, so that its gateways' view is at most a second old."""

_log = log.get(__name__)


class Right(Protocol):
    """The right to lead."""

    def status(self) -> LeaseStatus:
        """Say where this process stands with the lease, by the clock of this moment."""


class AgentDoor(Protocol):
    """Lets agents in and out."""

    def open(self) -> None:
        """Take on agents from now on."""

    def close(self, reason: str) -> None:
        """Let all agents go at once and refuse others."""


class Leadership:
    """Loads, bootstraps, lets agents in and reconciles while the lease is held; follows the store otherwise.

    A lease that another took ends that at once. One that only lapsed, since the store is away, ends what needs it
    (each write and order asks for itself); agents stay for a minute, so that a store that comes back finds them.
    """

    def __init__(
        self,
        *,
        lease: Right,
        load: Callable[[], Awaitable[None]],
        follow: Callable[[], Awaitable[None]],
        bootstrap: Callable[[], Awaitable[None]],
        agents: AgentDoor,
        reconcile: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._lease = lease
        self._load = load
        self._read_changes = follow
        self._bootstrap = bootstrap
        self._agents = agents
        self._reconcile = reconcile
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Look at the lease now: it may have changed. To be called on the loop."""
        self._changed.set()

    async def run(self) -> None:
        """Lead and follow until cancelled; then agents are let go at once."""
        told: str | None = None
        while True:
            try:
                await (self._lead() if self._leads() else self._follow())
                told = None
            except (Fenced, NoLeader, StoreUnavailable) as error:
                # Once: a store that is away for hours is one event, not one a second.
                if error.message != told:
                    _log.warning("leader.cannot", error=error.message)
                told = error.message
                await self._look()
            except LlmgwError as error:
                _log.error("leader.cannot", error=error.message, hint=error.hint)
                await asyncio.sleep(FOLLOW_S)

    async def _lead(self) -> None:
        term = self._lease.status().term
        await self._load()
        await self._bootstrap()
        if not self._holds(term):
            return
        _log.info("leader.leads")
        self._agents.open()
        reconciling = asyncio.ensure_future(self._reconcile())
        try:
            while self._holds(term) and not reconciling.done():
                await self._look()
        finally:
            # Agents first: each second they stay with us is one the next leader lacks them.
            self._agents.close("this control plane no longer leads")
            reconciling.cancel()
            _log.info("leader.stands_down")
            await _ended(reconciling)

    async def _follow(self) -> None:
        await self._read_changes()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FOLLOW_S):
                while not self._leads():
                    await self._look()

    def _leads(self) -> bool:
        return self._lease.status().standing is Standing.LEADING

    def _holds(self, term: int) -> bool:
        """True while nobody else can have led since `term` began, and the store is not away for too long."""
        status = self._lease.status()
        return status.term == term and holds_on(status)

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(LOOK_S):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()


async def _ended(task: asyncio.Future[None]) -> None:
    """Wait for the reconciler's end; a defect in it is told, and leading begins anew."""
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(outcome, Exception):
        _log.error("leader.reconciler_broke", exc_info=outcome)
