"""The control plane's end of its plan worker: it is started when first needed, and anew when it died."""

import asyncio
import contextlib
import sys

import msgspec

from llmgw.core.snapshot import Snapshot
from llmgw.schema.plan import Plan
from llmgw.server.plan_messages import LENGTH_BYTES, Ask, length, pack, unpack_plan
from llmgw.server.plan_news import Told
from llmgw.telemetry import log

ANSWER_S = 60.0
"""Longest time for one plan: a hundred times what it takes on 10,000 nodes. Then the worker is stuck."""
_END_S = 2.0
_ARGV = (sys.executable, "-m", "llmgw.server.plan_worker")

_log = log.get(__name__)


class PlanFailed(Exception):
    """The worker died or did not answer; the next plan starts a new one."""


class PlanProcess:
    """One worker. Asked by one caller at a time."""

    def __init__(self, argv: tuple[str, ...] = _ARGV) -> None:
        self._argv = argv
        self._process: asyncio.subprocess.Process | None = None
        self._told = Told()
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Give the worker's process id while there is one."""
        return None if self._process is None else self._process.pid

    def differs(self, snapshot: Snapshot) -> bool:
        """True when a plan for `snapshot` could be another than the last one, time aside."""
        return self._told.differs(snapshot)

    async def plan(self, snapshot: Snapshot) -> Plan:
        """Plan in the worker. Raises `PlanFailed`.

        Then the worker is gone, and so it is after a cancellation: its answer would be taken for the next one's.
        """
        whole = False
        try:
            process = self._process or await self._start()
            async with asyncio.timeout(ANSWER_S):
                plan = await self._ask(process, snapshot)
            whole = True
        except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError, msgspec.MsgspecError) as error:
            raise PlanFailed(f"the plan worker failed: {type(error).__name__}: {error}") from error
        finally:
            if not whole:
                await self.stop()
        return plan

    async def stop(self) -> None:
        """End the worker. The next plan starts another."""
        process, self._process, self._told = self._process, None, Told()
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await process.wait()

    async def _start(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*self._argv, stdin=pipe, stdout=pipe)
        self.starts += 1
        self._process, self._told = process, Told()
        _log.info("planner.worker_started", pid=process.pid)
        return process

    async def _ask(self, process: asyncio.subprocess.Process, snapshot: Snapshot) -> Plan:
        stdin, stdout = process.stdin, process.stdout
        if stdin is None or stdout is None:
            raise ValueError("no pipes")
        for news in self._told.news(snapshot):
            stdin.write(pack(news))
            await stdin.drain()
            # A large fleet is told in many pieces: others have their turn between two of them.
            await asyncio.sleep(0)
        stdin.write(pack(Ask(now=snapshot.now, doubtful=snapshot.doubtful)))
        await stdin.drain()
        size = length(await stdout.readexactly(LENGTH_BYTES))
        return unpack_plan(await stdout.readexactly(size))
