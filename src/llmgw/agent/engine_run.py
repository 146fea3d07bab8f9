"""One start of one shard's engine: from its command line, or its adoption, until nothing of it is left."""

import asyncio
import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from llmgw.agent import health, logs, process_group, readiness
from llmgw.agent.folder import full
from llmgw.agent.liveness import Look, Watch, judge
from llmgw.agent.local_state import LocalState, ShardRecord
from llmgw.agent.process_group import ProcessGroup
from llmgw.agent.readiness import Serving
from llmgw.agent.shard_status import ShardStatus
from llmgw.config import disk
from llmgw.engines import probe
from llmgw.engines.adapter import Adapter, Started
from llmgw.engines.progress import Progress
from llmgw.hardware import proc
from llmgw.ports import Clock
from llmgw.schema.desired import DesiredShard
from llmgw.schema.engine import EngineKind
from llmgw.schema.errors import InvalidInput
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import Death
from llmgw.schema.value import Value
from llmgw.telemetry import log

LOOK_S = 2.5
"""Seconds between two looks at a ready engine: llama.cpp's counters must not be read more often than every 2 s."""
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
        self.status = ShardStatus(record, tools.state, changed)
        self.last_reading: Reading | None = None
        self._tools = tools
        self._stop = asyncio.Event()
        self._stdin = b""

    def ask_to_stop(self) -> None:
        """Have it drained and ended; its status is `gone` once nothing is left of it."""
        self._stop.set()

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
            self.status.settled.set()

    # Beginning -------------------------------------------------------------------------------------

    async def _begin(self) -> ProcessGroup | None:
        if self.status.record.death is not None:
            return None
        if self.status.adopted:
            return await self._adopt()
        return await self._start()

    async def _start(self) -> ProcessGroup | None:
        desired, tools = self._desired, self._tools
        try:
            self._refuse_without_room()
            # Before the start, so that a process of an agent that dies right here is found by its group.
            self.status.begin()
            launch = self._adapter().launch(desired, log_verbosity=tools.verbosity)
            group = process_group.start(
                desired.id,
                launch.argv,
                {**desired.env, **launch.env},
                owner=tools.state.owner,
                log_path=self._log_path,
                cgroup_mount=tools.cgroup_mount,
            )
        except InvalidInput as error:
            self._dead(Death(status=None, asked=False, cause=error.message, heals=False))
            return None
        except OSError as error:
            self._dead(self._not_started(error))
            return None
        self._stdin = launch.stdin
        self.status.started(group.identity)
        logs.prune(self._log_path.parent)
        _log.info("shard.started", shard=desired.id, attempt=desired.attempt, pid=self.status.pid, model=desired.model)
        return group

    def _refuse_without_room(self) -> None:
        """Raise `OSError` where its log and its record would fill up what little is left."""
        root = self._tools.state.root
        if disk.is_full(root):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(root))

    def _not_started(self, error: OSError) -> Death:
        """Explain why there is no process. A full disk is no fault of the model's."""
        if disk.is_want_of_room(error):
            cause = full(self._tools.state.root)
            return Death(status=None, asked=False, cause=cause, counts=False, log_line=str(error))
        return Death(status=None, asked=False, cause=f"the engine could not be started: {error}")

    async def _adopt(self) -> ProcessGroup | None:
        record = self.status.record
        assert record.identity is not None, "only what was started is adopted"  # noqa: S101 - for the type checker
        group = process_group.adopt(record.identity)
        if group is None:
            await process_group.destroy(record.identity, leader_known=False)
            if record.stopping:
                self._end_as_asked()
            else:
                self._dead(self._death_unseen())
            return None
        self.status.pid = group.identity.pid
        _log.info("shard.adopted", shard=record.desired.id, attempt=record.desired.attempt, pid=self.status.pid)
        if record.stopping:
            self._stop.set()
        return group

    def _death_unseen(self) -> Death:
        """Explain an end that happened while no agent watched."""
        identity = self.status.record.identity
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
        if self.status.record.ready:
            cause = await self._check_adopted()
        else:
            cause = await self._get_ready(group)
        return cause or await self._watch(group)

    async def _check_adopted(self) -> str | None:
        """An adopted engine must still serve our model with our key. One too busy to answer is not dead."""
        verdict = await readiness.ask(self._desired, self._started(), self._tools.session, deadline_s=ADOPT_S)
        if isinstance(verdict, probe.NotReady) and verdict.decisive:
            return f"adopted, but not as expected: {verdict.reason}"
        self.status.enter(ShardPhase.READY)
        return None

    async def _get_ready(self, group: ProcessGroup) -> str | None:
        """See the engine through its start. Gives the cause when it must be given up."""
        self.status.settled.set()
        tools = self._tools
        try:
            async with asyncio.timeout(tools.start_timeout_s):
                await group.feed(self._stdin)
        except TimeoutError:
            return f"the engine did not read its settings within {tools.start_timeout_s:.0f} s"
        outcome = await readiness.await_ready(
            self._desired,
            self._adapter(),
            tools.session,
            group,
            log_path=self._log_path,
            timeout_s=tools.start_timeout_s,
            say=self.status.say,
        )
        if isinstance(outcome, str):
            return outcome
        self._became_ready(outcome)
        return None

    def _started(self) -> Started:
        record = self.status.record
        return Started(endpoint=record.endpoint or "", pid=self.status.pid or 0, version=record.engine_version)

    def _became_ready(self, serving: Serving) -> None:
        profile = self._desired.profile
        self.status.save(
            endpoint=serving.started.endpoint,
            engine_version=serving.started.version,
            ready=True,
            slots=serving.ready.slots or profile.slots,
            context=serving.ready.context or profile.context,
        )
        _log.info("shard.ready", shard=self._desired.id, endpoint=serving.started.endpoint)
        self.status.enter(ShardPhase.READY)

    async def _watch(self, group: ProcessGroup) -> str:
        """Look at the ready engine again and again. Gives the cause once it must be ended."""
        endpoint, key = self.status.record.endpoint or "", self._desired.key
        watch = Watch()
        while True:
            answered, progress = await asyncio.gather(
                health.ask(self._tools.session, endpoint), probe.progress(self._tools.session, endpoint, key)
            )
            now = time.monotonic()
            if progress is not None:
                self.last_reading = Reading(at=now, progress=progress)
            look = Look(at=now, stopped=group.stopped(), health=answered, cpu_s=group.cpu_s(), progress=progress)
            watch, cause = judge(watch, look)
            if cause is not None:
                return cause
            await asyncio.sleep(LOOK_S)

    # Ending ----------------------------------------------------------------------------------------

    async def _see_off(self, group: ProcessGroup) -> None:
        """End the engine as asked: its open requests have the grace, then everything is killed."""
        desired, first = self._desired, not self.status.record.stopping
        self.status.save(stopping=True)
        self.status.enter(ShardPhase.STOPPING)
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
        self.status.enter(ShardPhase.STOPPING)
        await self._destroy(group)
        if death.status is None and not group.adopted:
            death = msgspec.structs.replace(death, status=await group.ended())
        self._dead(death)

    async def _destroy(self, group: ProcessGroup) -> None:
        await group.destroy()
        if self.status.record.endpoint is not None and not await health.is_closed(self.status.record.endpoint):
            # Nothing of ours lives: whoever took the port since is a stranger.
            _log.warning("shard.port_taken", shard=self._desired.id, endpoint=self.status.record.endpoint)

    def _explain(self, status: int | None) -> Death:
        death = self._adapter().failure(status, logs.read_ends(self._log_path))
        root = self._tools.state.root
        if death.log_line is None and not self.status.record.ready and disk.is_full(root):
            # It may have had a reason, and could not write it down.
            return msgspec.structs.replace(death, cause=f"{death.cause}; {full(root)}", counts=False)
        if not self.status.adopted or death.log_line is None:
            return death  # an adapter that found no line in the log says so itself
        return msgspec.structs.replace(death, cause=f"{death.cause} (adopted: its exit status cannot be seen)")

    def _dead(self, death: Death) -> None:
        self.status.died(death)
        _log.warning("shard.dead", shard=self._desired.id, status=death.status, cause=death.cause)

    def _end_as_asked(self) -> None:
        self.status.ended()
        _log.info("shard.stopped", shard=self._desired.id)

    # Small things ----------------------------------------------------------------------------------

    @property
    def _desired(self) -> DesiredShard:
        return self.status.record.desired

    @property
    def _log_path(self) -> Path:
        return self._tools.state.log_path(self._desired.id, self._desired.attempt)

    def _adapter(self) -> Adapter:
        return self._tools.adapter(self._desired.profile.engine)
