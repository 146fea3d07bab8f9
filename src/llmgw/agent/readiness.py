"""Waiting for an engine to serve: what its log says, then what it answers."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp

from llmgw.agent import logs
from llmgw.engines import probe
from llmgw.engines.adapter import Adapter, Started
from llmgw.schema.desired import DesiredShard
from llmgw.schema.value import Value

LOOK_S = 0.1
ANSWER_S = 60.0
"""Seconds for the first answer of an engine that listens: its weights may still come from a slow disk."""


class Serving(Value, frozen=True, kw_only=True):
    """An engine that serves its model, and what it said of itself."""

    started: Started
    ready: probe.Ready


async def await_ready(
    desired: DesiredShard,
    adapter: Adapter,
    session: aiohttp.ClientSession,
    *,
    log_path: Path,
    timeout_s: float,
    say: Callable[[str | None], None],
) -> Serving | str:
    """Wait until the engine serves; a text is why it must be given up.

    It is given up when it says something decisive, or when its log says nothing new for `timeout_s`. `say` is told
    what it is doing.
    """
    started: Started | None = None
    doing: str | None = None
    seen, quiet_since = -1, time.monotonic()
    while True:
        size = logs.size(log_path)
        if size != seen:
            seen, quiet_since = size, time.monotonic()
            text = logs.read_tail(log_path)
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
        if time.monotonic() - quiet_since > timeout_s:
            last = f" (last: {doing})" if doing else ""
            return f"starting made no progress for {timeout_s:.0f} s{last}"
        await asyncio.sleep(LOOK_S)


async def ask(
    desired: DesiredShard, started: Started, session: aiohttp.ClientSession, *, deadline_s: float
) -> probe.Ready | probe.NotReady:
    """Ask once whether the engine serves the shard's model with its key."""
    return await probe.check_ready(
        session, started, key=desired.key, model=desired.model, role=desired.role, deadline_s=deadline_s
    )
