"""Ending all engines and the door of a node without a running agent, by what the last one left on disk."""

import asyncio
import time

from llmgw.agent import health, process_group
from llmgw.agent.local_state import LocalState, ShardRecord
from llmgw.agent.process_group import Identity
from llmgw.config.agent import AgentConfig
from llmgw.hardware.cgroup import unified_mount
from llmgw.hardware.mounts import read_mounts
from llmgw.schema.errors import Conflict
from llmgw.telemetry import log

LOCK_S = 10.0
"""Seconds an agent that was just asked to end may take."""
DOOR_GRACE_S = 5.0
OVER_GRACE_S = 2.0

_log = log.get(__name__)


async def stop_everything(config: AgentConfig) -> None:
    """Drain and end every engine, then the door; returns once nothing is left. Raises `Conflict` beside an agent."""
    state = LocalState(config.data_dir)
    await _lock(state)
    try:
        mount = unified_mount(read_mounts())
        async with asyncio.TaskGroup() as group:
            for record in state.records():
                group.create_task(_stop_shard(state, record, mount, grace_s=config.stop_grace_s))
        door = state.door_process()
        if door is not None:
            await _stop(door, grace_s=DOOR_GRACE_S)
            state.save_door_process(None)
            _log.info("door.stopped")
        for name in process_group.owned(state.owner):
            _log.warning("process.orphan", name=name)
            left = process_group.leftover(name, owner=state.owner, cgroup_mount=mount)
            await process_group.destroy(left, leader_known=False)
    finally:
        state.close()


async def _lock(state: LocalState) -> None:
    end = time.monotonic() + LOCK_S
    while True:
        try:
            return state.open()
        except Conflict:
            if time.monotonic() > end:
                raise
        await asyncio.sleep(0.1)


async def _stop_shard(state: LocalState, record: ShardRecord, mount: str | None, *, grace_s: float) -> None:
    shard = record.desired.id
    identity = record.identity or process_group.leftover(shard, owner=state.owner, cgroup_mount=mount)
    if record.death is None:
        await _stop(identity, grace_s=min(grace_s, record.desired.grace_s), asked_before=record.stopping)
        if record.endpoint is not None and not await health.is_closed(record.endpoint):
            _log.warning("shard.port_taken", shard=shard, endpoint=record.endpoint)
    state.remove_record(shard)
    _log.info("shard.stopped", shard=shard)


async def _stop(identity: Identity, *, grace_s: float, asked_before: bool = False) -> None:
    group = process_group.adopt(identity)
    if group is None:
        await process_group.destroy(identity, leader_known=False)
        return
    try:
        if not asked_before:
            group.terminate()
        try:
            async with asyncio.timeout(grace_s + OVER_GRACE_S):
                await group.ended()
        except TimeoutError:
            _log.warning("process.grace_over", name=identity.name, grace_s=grace_s)
        await group.destroy()
    finally:
        group.close()
