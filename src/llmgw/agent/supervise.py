"""The node's engines: makes what runs what is wanted, again and again, and adopts what an earlier agent left."""

import asyncio
import time
from collections.abc import Callable

from llmgw.agent import logs, process_group
from llmgw.agent.engine_run import EngineRun, EngineTools
from llmgw.agent.local_state import ShardRecord
from llmgw.agent.obey import obey
from llmgw.agent.obeyed import is_shard_id
from llmgw.schema.desired import DesiredState, Mode
from llmgw.schema.door import DoorReading, DoorShard
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import ShardReport
from llmgw.telemetry import log

LOOK_S = 2.0
ADOPTION_S = 8.0
"""Seconds to learn what became of the engines of an earlier agent, before anything is reported."""
SWEEP_S = 60.0
"""Seconds between two looks for engines of ours that nobody knows."""
KILL_S = 10.0

_log = log.get(__name__)


class Supervisor:
    """Holds the node's engine runs."""

    def __init__(self, tools: EngineTools, changed: Callable[[], None]) -> None:
        self._tools = tools
        self._changed = changed
        self._runs: dict[str, EngineRun] = {}
        self._order: DesiredState | None = None
        self._wake = asyncio.Event()
        self._swept_at: float | None = None
        self.adopted = asyncio.Event()
        """Set once reports tell what an earlier agent left."""

    def order(self, state: DesiredState) -> None:
        """Take an order that was accepted; carried out soon."""
        self._order = state
        self._wake.set()

    def reports(self) -> tuple[ShardReport, ...]:
        """Report all shards."""
        return tuple(run.status.report() for run in self._runs.values() if not run.status.gone)

    def door_shards(self) -> tuple[DoorShard, ...]:
        """Give the engines that may be reached through the door."""
        ready = (run.status.record for run in self._runs.values() if run.status.phase is ShardPhase.READY)
        return tuple(self._door_shard(record) for record in ready)

    def groups(self) -> dict[str, process_group.Identity]:
        """Give the process groups of all engines that run, by shard."""
        records = ((run.status.pid, run.status.record) for run in self._runs.values())
        return {
            record.desired.id: record.identity
            for pid, record in records
            if record.identity is not None and record.identity.pid == pid
        }

    def readings(self) -> tuple[DoorReading, ...]:
        """Give the last readings of all engines' counters."""
        now = time.monotonic()
        found = ((shard, run.last_reading) for shard, run in self._runs.items())
        return tuple(
            DoorReading(shard=shard, age_s=now - reading.at, values=reading.values())
            for shard, reading in found
            if reading is not None
        )

    async def run(self, known_pids: Callable[[], tuple[int, ...]]) -> None:
        """Supervise until cancelled, which leaves all engines running.

        `known_pids` are children of this process that others wait for.
        """
        async with asyncio.TaskGroup() as group:
            await self._adopt(group)
            while True:
                self._wake.clear()
                await self._sweep()
                self._step(group)
                process_group.reap_strays((*known_pids(), *self._leaders()))
                await self._pause()

    async def _adopt(self, group: asyncio.TaskGroup) -> None:
        for record in self._tools.state.records():
            if record.identity is None and record.death is None:
                await self._discard(record)
            else:
                self._launch(group, record)
        logs.sweep(self._tools.state.root / "logs", self._runs)
        waiting = [asyncio.create_task(run.status.settled.wait()) for run in self._runs.values()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=ADOPTION_S)
            for task in late:
                task.cancel()
        self.adopted.set()

    async def _discard(self, record: ShardRecord) -> None:
        """Kill what an agent that died in the middle of a start left, by group and mark alone."""
        await self._kill(record.desired.id)
        self._tools.state.remove_record(record.desired.id)

    async def _sweep(self) -> None:
        """Kill engines that earlier agents of this folder started and no record tells of.

        Only under an order that says what runs, and before anything is started: a shard's lost engine must not run
        beside its new one.
        """
        now = time.monotonic()
        is_due = self._swept_at is None or now - self._swept_at >= SWEEP_S
        if not is_due or self._order is None or self._order.mode is Mode.OBSERVE:
            return
        self._swept_at = now
        state = self._tools.state
        for shard in process_group.owned(state.owner) - self._runs.keys() - {state.door_name}:
            if is_shard_id(shard):
                _log.warning("shard.orphan", shard=shard)
                await self._kill(shard)

    async def _kill(self, shard: str) -> None:
        tools = self._tools
        left = process_group.leftover(shard, owner=tools.state.owner, cgroup_mount=tools.cgroup_mount)
        try:
            async with asyncio.timeout(KILL_S):
                await process_group.destroy(left, leader_known=False)
        except TimeoutError:
            _log.error("shard.orphan_left", shard=shard)

    def _step(self, group: asyncio.TaskGroup) -> None:
        self._runs = {shard: run for shard, run in self._runs.items() if not run.status.gone}
        steps = obey(self._order, (run.status.running for run in self._runs.values()))
        for shard in steps.forget:
            self._runs.pop(shard).status.forget()
            self._changed()
        for shard in steps.stop:
            self._runs[shard].ask_to_stop()
        for wanted in steps.start:
            self._launch(group, ShardRecord(desired=wanted, started_at=self._tools.clock.now()))

    def _launch(self, group: asyncio.TaskGroup, record: ShardRecord) -> None:
        run = EngineRun(record, self._tools, self._on_change)
        self._runs[record.desired.id] = run
        group.create_task(run.live(), name=f"shard {record.desired.id}")

    def _leaders(self) -> tuple[int, ...]:
        return tuple(run.status.pid for run in self._runs.values() if run.status.pid is not None)

    def _on_change(self) -> None:
        self._wake.set()
        self._changed()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(LOOK_S):
                await self._wake.wait()
        except TimeoutError:
            return

    def _door_shard(self, record: ShardRecord) -> DoorShard:
        desired = record.desired
        paths = self._tools.adapter(desired.profile.engine).paths(desired.role)
        return DoorShard(
            id=desired.id,
            model=desired.model,
            endpoint=record.endpoint or "",
            key=desired.key,
            paths=tuple(sorted(paths)),
        )
