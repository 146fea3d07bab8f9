"""The agent is killed with -9 after each step of an engine's start: the next one ends with exactly one engine."""

import asyncio

import pytest

from llmgw.agent import process_group
from llmgw.agent.local_state import LocalState
from llmgw.schema.desired import Mode
from llmgw.schema.replica import ShardPhase

STEPS = (
    "nothing is written",
    "the record is written",
    "the process runs",
    "the process is in its group",
    "its identity is known",
    "its identity is written",
    "its settings are half written",
    "its settings are written",
    "it is ready",
    "its readiness is written",
)


def engines(machine):
    """Pids of everything that carries the shard's mark."""
    owner = LocalState(f"{machine.root}/data").owner
    group = process_group.leftover(machine.shard().id, owner=owner, cgroup_mount=None)
    return process_group.members(group, leader_known=False)


@pytest.mark.parametrize("step", STEPS)
async def test_a_start_interrupted_once(step, machine):
    await machine.start(dying_at=step)
    machine.control.order([machine.shard()])
    assert await asyncio.to_thread(machine.agent.wait, 60) == -9
    await machine.control.until(lambda: not machine.control.connected)

    await machine.start()
    machine.control.order([machine.shard()])
    report = await settled(machine)
    if report.phase is ShardPhase.DEAD:
        # What a control plane does: such a death heals, does not count, and the next attempt follows.
        assert report.death.cause.startswith("The start was cut short")
        assert (report.death.heals, report.death.counts) == (True, False)
        report = await machine.serve(attempt=2)
    assert engines(machine) == {report.pid}


async def settled(machine):
    def report():
        found = machine.control.reports.get(machine.shard().id)
        return found if found is not None and found.phase in {ShardPhase.READY, ShardPhase.DEAD} else None

    await machine.control.until(lambda: report() is not None, within_s=60)
    return report()


async def test_an_engine_whose_record_is_lost_is_replaced_once_it_is_said_what_runs(machine):
    await machine.start()
    before = await machine.serve()
    await machine.control.until(lambda: machine.control.facts.door is not None)
    door = machine.control.facts.door
    await machine.end(9)
    (machine.root / "data" / "shards" / f"{before.id}.json").write_text("{ damaged")
    await machine.start()
    machine.control.order([machine.shard()], mode=Mode.OBSERVE)
    await asyncio.sleep(1.0)
    assert engines(machine) == {before.pid}, "who only observes ends nothing"
    machine.control.order([machine.shard()])
    after = await machine.until(ShardPhase.READY)
    assert after.pid != before.pid
    assert engines(machine) == {after.pid}
    assert machine.control.facts.door == door, "the door is nobody's orphan"


async def test_an_engine_nobody_knows_or_wants_is_killed(machine):
    await machine.start()
    before = await machine.serve()
    await machine.end(9)
    (machine.root / "data" / "shards" / f"{before.id}.json").unlink()
    await machine.start()
    machine.control.order([])
    async with asyncio.timeout(20):
        while engines(machine):  # noqa: ASYNC110 - processes tell nobody that they end
            await asyncio.sleep(0.05)


async def test_stopping_engines_ends_those_without_a_record_too(machine):
    await machine.start()
    before = await machine.serve()
    await machine.end(9)
    (machine.root / "data" / "shards" / f"{before.id}.json").unlink()
    assert (await machine.command("--stop-engines"))[0] == 0
    assert engines(machine) == frozenset()
