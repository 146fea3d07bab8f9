"""One start of one shard's engine: from its command line, or its adoption, until nothing of it is left."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from llmgw.agent import health, logs, process_group
from llmgw.agent.liveness import Look, Watch, judge
from llmgw.agent.local_state import LocalState, ShardRecord
from llmgw.agent.obey import Running
from llmgw.agent.process_group import ProcessGroup
from llmgw.engines import probe
from llmgw.engines.adapter import Adapter, Started
from llmgw.engines.progress import Progress
from llmgw.hardware import proc
from llmgw.ports import Clock
from llmgw.schema.engine import EngineKind
from llmgw.schema.errors import InvalidInput
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import Death, ShardReport
from llmgw.schema.value import Value
from llmgw.telemetry import log

LOOK_S = 2.5
"""Seconds between two looks at a ready engine: llama.cpp's counters must not be read more often than every 2 s."""
START_LOOK_S = 0.1
READY_S = 60.0
"""Seconds for the first answer of an engine that listens: its weights may still come from a slow disk."""
ADOPT_S = 4.0
OVER_GRACE_S = 2.0
"""Seconds an engine may take to end after its grace."""

_log = log.get(__name__)


@dataclass(frozen=True, kw_only=True)
class EngineTools:
    """What runs need of the outside."""

    state: LocalState
    adapter: Callable[[EngineKind], Adapter]
    session: aiohttp.ClientSession
    clock: Clock
    cgroup_mount: str | None
    start_timeout_s: float
    verbosity: int


class Reading(Value, frozen=True, kw_only=True):
    """One reading of an engine's counters."""

    at: float
    """Monotonic seconds."""
    progress: Progress

    def values(self) -> dict[str, float]:
        """Give the counters by name."""
        return {name: float(value) for name, value in msgspec.structs.asdict(self.progress).items()}


class EngineRun:
    """The engine of one attempt. `live` does all the work; the rest looks at it or asks it to end."""

    def __init__(self, record: ShardRecord, tools: EngineTools, changed: Callable[[], None]) -> None:
        self._record = record
        self._tools = tools
        self._changed = changed
        self._phase = ShardPhase.DEAD if record.death is not None else ShardPhase.STARTING
        self._doing: str | None = None
        self._adopted = record.identity is not None
        self._stop = asyncio.Event()
        self._pid: int | None = None
        self.settled = asyncio.Event()
        """Set once it is known what became of an engine that an earlier agent started."""
        self.gone = False
        """True once it ended as asked: nothing is left to report."""
        self.last_progress: Reading | None = None

    @property
    def running(self) -> Running:
        """What the comparison with the desired set needs."""
        return Running(id=self._record.desired.id, attempt=self._record.desired.attempt, phase=self._phase)

    @property
    def record(self) -> ShardRecord:
        """What is kept on disk of it."""
        return self._record

    @property
    def pid(self) -> int | None:
        """Its leader's pid while it runs."""
        return self._pid

    def report(self) -> ShardReport:
        """Say what the control plane should know."""
        record = self._record
        return ShardReport(
            id=record.desired.id,
            attempt=record.desired.attempt,
            phase=self._phase,
            model=record.desired.model,
            engine=record.desired.profile.engine,
            endpoint=record.endpoint,
            pid=self._pid,
            engine_version=record.engine_version,
            started_at=record.started_at,
            slots=record.slots,
            context=record.context,
            adopted=self._adopted,
            progress=self._doing if self._phase is not ShardPhase.READY else None,
            death=record.death,
        )

    def ask_to_stop(self) -> None:
        """Have it drained and ended; it is `gone` once nothing is left of it."""
        self._stop.set()

    def forget(self) -> None:
        """Drop the record of a dead engine."""
        self._tools.state.remove_record(self._record.desired.id)

    async def live(self) -> None:
        """Start or adopt the engine, make sure it serves, watch it, and see it off. Cancelling leaves it running."""
        try:
            group = await self._begin()
            if group is None:
                return
            try:
                await self._until_end(group)
            finally:
                group.close()
        finally:
            self.settled.set()

    # Beginning -------------------------------------------------------------------------------------

    async def _begin(self) -> ProcessGroup | None:
        if self._record.death is not None:
            return None
        if self._adopted:
            return await self._adopt()
        return await self._start()

    async def _start(self) -> ProcessGroup | None:
        desired, tools = self._record.desired, self._tools
        # Before the start, so that a process of an agent that dies right here is found by its group.
        self._save()
        try:
            launch = tools.adapter(desired.profile.engine).launch(desired, log_verbosity=tools.verbosity)
            group = process_group.start(
                desired.id, launch.argv, launch.env, log_path=self._log_path, cgroup_mount=tools.cgroup_mount
            )
        except InvalidInput as error:
            self._dead(Death(status=None, asked=False, cause=error.message, heals=False))
            return None
        except OSError as error:
            self._dead(Death(status=None, asked=False, cause=f"the engine could not be started: {error}"))
            return None
        self._pid = group.identity.pid
        self._save(identity=group.identity)
        logs.prune(self._log_path.parent)
        _log.info("shard.started", shard=desired.id, attempt=desired.attempt, pid=self._pid, model=desired.model)
        self._changed()
        await group.feed(launch.stdin)
        return group

    async def _adopt(self) -> ProcessGroup | None:
        record = self._record
        assert record.identity is not None, "only what was started is adopted"  # noqa: S101 - for the type checker
        group = process_group.adopt(record.identity)
        if group is None:
            await process_group.destroy(record.identity, leader_known=False)
            if record.stopping:
                self._end_as_asked()
            else:
                self._dead(self._death_unseen())
            return None
        self._pid = group.identity.pid
        _log.info("shard.adopted", shard=record.desired.id, attempt=record.desired.attempt, pid=self._pid)
        if record.stopping:
            self._stop.set()
        return group

    def _death_unseen(self) -> Death:
        """Explain an end that happened while no agent watched."""
        identity = self._record.identity
        if identity is not None and identity.boot_id != proc.boot_id():
            return Death(status=None, asked=False, cause="the machine was restarted", counts=False)
        return self._explain(None)

    # Life ------------------------------------------------------------------------------------------

    async def _until_end(self, group: ProcessGroup) -> None:
        """Attend to the engine until it ends, is to be ended, or is found dead."""
        ended = asyncio.create_task(group.ended())
        asked = asyncio.create_task(self._stop.wait())
        attending = asyncio.create_task(self._attend(group))
        try:
            await asyncio.wait({ended, asked, attending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (ended, asked, attending):
                task.cancel()
            await asyncio.gather(ended, asked, attending, return_exceptions=True)
        if self._stop.is_set():
            await self._see_off(group)
        elif not ended.cancelled():
            await self._bury(group, self._explain(ended.result()))
        else:
            await self._bury(group, Death(status=None, asked=False, cause=attending.result()))

    async def _attend(self, group: ProcessGroup) -> str:
        """Give the cause, in words, for which the engine must be ended."""
        if self._record.ready:
            cause = await self._check_adopted()
        else:
            cause = await self._get_ready()
        return cause or await self._watch(group)

    async def _check_adopted(self) -> str | None:
        """An adopted engine must still serve our model with our key. One too busy to answer is not dead."""
        verdict = await self._ask_ready(self._started(), deadline_s=ADOPT_S)
        if isinstance(verdict, probe.NotReady) and verdict.decisive:
            return f"adopted, but not as expected: {verdict.reason}"
        self._set(ShardPhase.READY)
        return None

    async def _get_ready(self) -> str | None:
        """Wait until the engine serves. Gives up on one whose log says nothing new for the start timeout."""
        adapter = self._tools.adapter(self._record.desired.profile.engine)
        started: Started | None = None
        seen, quiet_since = -1, time.monotonic()
        self.settled.set()
        while True:
            size = logs.size(self._log_path)
            if size != seen:
                seen, quiet_since = size, time.monotonic()
                text = logs.read_tail(self._log_path)
                started = started or adapter.ready_line(text)
                self._say(adapter.starting(text))
            if started is not None:
                verdict = await self._ask_ready(started, deadline_s=READY_S)
                if isinstance(verdict, probe.Ready):
                    self._became_ready(started, verdict)
                    return None
                if verdict.decisive:
                    return f"the engine started but does not serve: {verdict.reason}"
                self._say(verdict.reason)
            if time.monotonic() - quiet_since > self._tools.start_timeout_s:
                doing = f" (last: {self._doing})" if self._doing else ""
                return f"starting made no progress for {self._tools.start_timeout_s:.0f} s{doing}"
            await asyncio.sleep(START_LOOK_S)

    async def _ask_ready(self, started: Started, *, deadline_s: float) -> probe.Ready | probe.NotReady:
        desired = self._record.desired
        return await probe.check_ready(
            self._tools.session,
            started,
            key=desired.key,
            model=desired.model,
            role=desired.role,
            deadline_s=deadline_s,
        )

    def _started(self) -> Started:
        record = self._record
        return Started(endpoint=record.endpoint or "", pid=self._pid or 0, version=record.engine_version)

    def _became_ready(self, started: Started, ready: probe.Ready) -> None:
        profile = self._record.desired.profile
        self._save(
            endpoint=started.endpoint,
            engine_version=started.version,
            ready=True,
            slots=ready.slots or profile.slots,
            context=ready.context or profile.context,
        )
        _log.info("shard.ready", shard=self._record.desired.id, endpoint=started.endpoint)
        self._set(ShardPhase.READY)

    async def _watch(self, group: ProcessGroup) -> str:
        """Look at the ready engine again and again. Gives the cause once it must be ended."""
        endpoint, key = self._record.endpoint or "", self._record.desired.key
        watch = Watch()
        while True:
            answered, progress = await asyncio.gather(
                health.ask(self._tools.session, endpoint), probe.progress(self._tools.session, endpoint, key)
            )
            now = time.monotonic()
            if progress is not None:
                self.last_progress = Reading(at=now, progress=progress)
            look = Look(at=now, stopped=group.stopped(), health=answered, cpu_s=group.cpu_s(), progress=progress)
            watch, cause = judge(watch, look)
            if cause is not None:
                return cause
            await asyncio.sleep(LOOK_S)

    # Ending ----------------------------------------------------------------------------------------

    async def _see_off(self, group: ProcessGroup) -> None:
        """End the engine as asked: its open requests have the grace, then everything is killed."""
        desired, first = self._record.desired, not self._record.stopping
        self._save(stopping=True)
        self._set(ShardPhase.STOPPING)
        if first:
            group.terminate()
        try:
            async with asyncio.timeout(desired.grace_s + OVER_GRACE_S):
                await group.ended()
        except TimeoutError:
            _log.warning("shard.grace_over", shard=desired.id, grace_s=desired.grace_s)
        await self._destroy(group)
        self._end_as_asked()

    async def _bury(self, group: ProcessGroup, death: Death) -> None:
        """Kill what is left of an engine that died or must, and report its death once nothing is."""
        self._set(ShardPhase.STOPPING)
        await self._destroy(group)
        if death.status is None and not group.adopted:
            death = msgspec.structs.replace(death, status=await group.ended())
        self._dead(death)

    async def _destroy(self, group: ProcessGroup) -> None:
        await group.destroy()
        if self._record.endpoint is not None and not await health.is_closed(self._record.endpoint):
            # Nothing of ours lives: whoever took the port since is a stranger.
            _log.warning("shard.port_taken", shard=self._record.desired.id, endpoint=self._record.endpoint)

    def _explain(self, status: int | None) -> Death:
        adapter = self._tools.adapter(self._record.desired.profile.engine)
        death = adapter.failure(status, logs.read_ends(self._log_path))
        if not self._adopted or death.log_line is None:
            return death  # an adapter that found no line in the log says so itself
        return msgspec.structs.replace(death, cause=f"{death.cause} (adopted: its exit status cannot be seen)")

    def _dead(self, death: Death) -> None:
        self._pid = None
        self._save(death=death)
        _log.warning("shard.dead", shard=self._record.desired.id, status=death.status, cause=death.cause)
        self._set(ShardPhase.DEAD)

    def _end_as_asked(self) -> None:
        self._pid = None
        self._tools.state.remove_record(self._record.desired.id)
        _log.info("shard.stopped", shard=self._record.desired.id)
        self.gone = True
        self._set(ShardPhase.DEAD)

    # Small things ----------------------------------------------------------------------------------

    @property
    def _log_path(self) -> Path:
        return self._tools.state.log_path(self._record.desired.id, self._record.desired.attempt)

    def _set(self, phase: ShardPhase) -> None:
        self._phase = phase
        self._doing = None
        self.settled.set()
        self._changed()

    def _say(self, doing: str | None) -> None:
        if doing is not None and doing != self._doing:
            self._doing = doing
            self._changed()

    def _save(self, **changes: object) -> None:
        self._record = msgspec.structs.replace(self._record, **changes)
        self._tools.state.save_record(self._record)
