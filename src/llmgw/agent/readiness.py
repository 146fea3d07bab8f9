"""Waiting for an engine to serve: what its log says, then what it answers."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import aiohttp

from llmgw.agent import logs
from llmgw.agent.liveness import STOPPED_S
from llmgw.engines import probe
from llmgw.engines.adapter import Adapter, Started
from llmgw.schema.desired import DesiredShard
from llmgw.schema.value import Value

LOOK_S = 0.1
MEMORY_LOOK_S = 2.0
LOADED_BYTES = 1024 * 1024
"""Memory gained since the last sign of progress that is one itself: large weights load for minutes without a word."""
ANSWER_S = 60.0
"""Seconds for the first answer of an engine that listens: its weights may still come from a slow disk."""


class Starting(Protocol):
    """What is asked of a starting engine's processes; a `ProcessGroup`."""

    def stopped(self) -> bool:
        """True while a signal holds the leader."""

    def resident_bytes(self) -> int:
        """Memory in use."""


class Serving(Value, frozen=True, kw_only=True):
    """An engine that serves its model, and what it said of itself."""

    started: Started
    ready: probe.Ready


async def await_ready(
    desired: DesiredShard,
    adapter: Adapter,
    session: aiohttp.ClientSession,
    group: Starting,
    *,
    log_path: Path,
    timeout_s: float,
    say: Callable[[str | None], None],
) -> Serving | str:
    """Wait until the engine serves; a text is why it must be given up.

    It is given up when it says something decisive, when a signal stopped it, or when for `timeout_s` its log says
    nothing new and it takes no more memory. `say` is told what it is doing.
    """
    serving = asyncio.create_task(
        _await_serving(desired, adapter, session, _Signs(log_path, group), timeout_s=timeout_s, say=say)
    )
    frozen = asyncio.create_task(_await_frozen(group))
    try:
        done, _ = await asyncio.wait({serving, frozen}, return_when=asyncio.FIRST_COMPLETED)
        return serving.result() if serving in done else frozen.result()
    finally:
        for task in (serving, frozen):
            task.cancel()
        await asyncio.gather(serving, frozen, return_exceptions=True)


class _Signs:
    """Signs of progress of a starting engine."""

    def __init__(self, log_path: Path, group: Starting) -> None:
        self._log_path = log_path
        self._group = group
        self._log_bytes = -1
        self._memory_bytes = 0
        self._memory_at = self.last_at = time.monotonic()

    def news(self) -> str | None:
        """Give the log when it says something new; take note of memory now and then."""
        now, size = time.monotonic(), logs.size(self._log_path)
        if now - self._memory_at >= MEMORY_LOOK_S:
            self._look_at_memory(now)
        if size == self._log_bytes:
            return None
        self._log_bytes, self.last_at = size, now
        return logs.read_tail(self._log_path)

    def _look_at_memory(self, now: float) -> None:
        self._memory_at, resident = now, self._group.resident_bytes()
        if resident >= self._memory_bytes + LOADED_BYTES:
            # Only what was never reached before: memory that comes and goes would be progress for ever.
            self._memory_bytes, self.last_at = resident, now


async def _await_serving(
    desired: DesiredShard,
    adapter: Adapter,
    session: aiohttp.ClientSession,
    signs: _Signs,
    *,
    timeout_s: float,
    say: Callable[[str | None], None],
) -> Serving | str:
    started: Started | None = None
    doing: str | None = None
    while True:
        text = signs.news()
        if text is not None:
            started = started or adapter.ready_line(text)
            doing = adapter.starting(text) or doing
        if started is not None:
            verdict = await ask(desired, started, session, deadline_s=ANSWER_S)
            if isinstance(verdict, probe.Ready):
                return Serving(started=started, ready=verdict)
            if verdict.decisive:
                return f"the engine started but does not serve: {verdict.reason}"
            doing = verdict.reason
        say(doing)
        if time.monotonic() - signs.last_at > timeout_s:
            last = f" (last: {doing})" if doing else ""
            return f"starting made no progress for {timeout_s:.0f} s{last}"
        await asyncio.sleep(LOOK_S)


async def _await_frozen(group: Starting) -> str:
    """Wait until the engine was stopped at every look for a while: looks, as we may have been frozen with it."""
    stopped_s = 0.0
    while stopped_s < STOPPED_S:
        await asyncio.sleep(LOOK_S)
        stopped_s = stopped_s + LOOK_S if group.stopped() else 0.0
    return f"the engine's process was stopped by a signal while it started, and did not go on for {STOPPED_S:.0f} s"


async def ask(
    desired: DesiredShard, started: Started, session: aiohttp.ClientSession, *, deadline_s: float
) -> probe.Ready | probe.NotReady:
    """Ask once whether the engine serves the shard's model with its key."""
    return await probe.check_ready(
        session, started, key=desired.key, model=desired.model, role=desired.role, deadline_s=deadline_s
    )
