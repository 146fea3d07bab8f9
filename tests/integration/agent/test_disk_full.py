"""The disk of the agent's folder is full: what runs goes on, what is new is refused in words, all heals by itself."""

import asyncio
import os
import signal
import subprocess

import aiohttp
import msgspec
import psutil
import pytest

from llmgw.engines.registry import adapter
from llmgw.schema.link import Heartbeat
from llmgw.schema.replica import ShardPhase
from llmgw.testing.engine_process import EngineProcess, shard_for
from llmgw.testing.small_disk import SmallDisk, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture
def disk(tmp_path):
    """Mounted before the machine's agent starts, unmounted after its end."""
    with SmallDisk(tmp_path / "data", mib=16, files=400) as disk:
        yield disk


@pytest.fixture
async def small(disk, machine):
    machine.disk = disk
    config = machine.root / "agent.toml"
    # So talkative that each request would write.
    config.write_text(config.read_text() + "engine_verbosity = 4\n")
    yield machine
    disk.free()


async def ask(machine, report):
    """One request to the engine itself."""
    request = {"model": "tiny", "prompt": " 4", "max_tokens": 2}
    headers = {"Authorization": f"Bearer {machine.shard().key}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{report.endpoint}/v1/completions", json=request, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        assert (await answer.json())["choices"][0]["text"] == " 5 6"


def doors(machine):
    """Give the pids of the doors that run for this agent's folder."""
    wanted = f"{machine.root}/data/door.toml"
    return [one.pid for one in psutil.process_iter(["cmdline"]) if wanted in (one.info["cmdline"] or ())]


def another(machine, attempt=1):
    shard = machine.shard(attempt)
    return msgspec.structs.replace(shard, id=shard.id.replace(".0", ".1"))


async def told(machine, wanted):
    """Wait until the node tells of a full disk, or no longer does."""
    await machine.control.until(lambda: bool(machine.control.facts.problems) is wanted)
    return machine.control.facts.problems


async def beats(machine, count=3):
    def seen():
        return sum(isinstance(one, Heartbeat) for one in machine.control.messages)

    before = seen()
    await machine.control.until(lambda: seen() >= before + count)


async def refused(machine, shard):
    report = await machine.until(ShardPhase.DEAD, shard.attempt, shard=shard)
    assert f"{machine.root}/data is full" in report.death.cause
    assert (report.death.counts, report.death.heals, report.death.asked) == (False, True, False)


async def heals(machine, running, wanted):
    """Room comes back: nothing is done to the agent, and a start that was refused succeeds with its next attempt."""
    machine.disk.free()
    assert await told(machine, wanted=False) == ()
    again = msgspec.structs.replace(wanted, attempt=wanted.attempt + 1)
    machine.control.order([machine.shard(), again])
    await machine.until(ShardPhase.READY, again.attempt, shard=again)
    assert machine.control.reports[running.id].pid == running.pid
    assert machine.control.phases[running.id] == [ShardPhase.STARTING, ShardPhase.READY]


def fill(disk, what):
    if what == "room":
        disk.fill()
    else:
        disk.fill_files()


@pytest.mark.parametrize("what", ["room", pytest.param("files", marks=pytest.mark.slow)])
async def test_engines_run_on_and_starts_are_refused_until_there_is_room(small, what):
    await small.start()
    running = await small.serve()
    before = small.agent.pid
    fill(small.disk, what)
    (problem,) = await told(small, wanted=True)
    assert problem.startswith(f"the disk of the agent's data_dir {small.root}/data is full")
    small.control.order([small.shard(), another(small)])
    await refused(small, another(small))
    for _ in range(20):
        await ask(small, running)
    await beats(small)
    assert small.agent.poll() is None
    assert small.agent.pid == before
    await heals(small, running, another(small))


@pytest.mark.slow
async def test_an_agent_that_is_killed_on_a_full_disk_is_followed_by_one_that_knows_all(small):
    await small.start()
    running = await small.serve()
    small.disk.fill()
    await told(small, wanted=True)
    # A new leader's order, which must be remembered although there is no room.
    small.control.epoch, small.control.holder = 7, "control-2"
    small.control.order([small.shard()])
    await small.control.until(lambda: small.control.messages[-1].generation == 2)
    assert await small.end(signal.SIGKILL) == -signal.SIGKILL
    await ask(small, running)
    await small.start()
    hello = small.control.hellos[-1]
    assert (hello.epoch, hello.holder, hello.generation) == (7, "control-2", 2)
    assert [(one.id, one.pid, one.phase) for one in hello.shards] == [(running.id, running.pid, ShardPhase.READY)]
    await told(small, wanted=True)
    small.control.order([small.shard()], epoch=6, holder="control-1")
    refusal = await small.control.refusal()
    assert refusal.highest_epoch == 7
    # It can be told to stop what runs, and start again once there is room.
    small.control.order([])
    await small.control.until(lambda: small.control.reports == {})
    assert list((small.root / "data" / "shards").iterdir()) == []
    small.control.order([another(small)])
    await refused(small, another(small))
    small.disk.free()
    await told(small, wanted=False)
    small.control.order([another(small, attempt=2)])
    await small.until(ShardPhase.READY, 2, shard=another(small))


@pytest.mark.slow
async def test_a_door_that_dies_on_a_full_disk_is_started_again_once_and_found_once_there_is_room(small):
    await small.start()
    running = await small.serve()
    await small.control.until(lambda: small.control.facts.door is not None)
    (door,) = doors(small)
    small.disk.fill()
    await told(small, wanted=True)
    os.kill(door, signal.SIGKILL)
    await small.control.until(lambda: small.control.facts.door is None)
    await asyncio.sleep(5)
    assert len(doors(small)) == 1
    assert doors(small) != [door]
    await ask(small, running)
    small.disk.free()
    await small.control.until(lambda: small.control.facts.door is not None)
    assert len(doors(small)) == 1


@pytest.mark.slow
async def test_a_node_whose_disk_is_full_before_it_ever_joined_joins_once_there_is_room(small):
    small.disk.fill()
    small.disk.fill_files()
    with (small.root / "agent.log").open("a") as output:
        small.agent = subprocess.Popen(small.argv(), stdout=output, stderr=output)  # noqa: ASYNC220 - returns at once
    await asyncio.sleep(6)
    assert small.agent.poll() is None
    assert (small.root / "agent.log").read_text().count("agent.disk_full") == 1
    small.disk.free()
    await small.control.until(lambda: small.control.connected)
    await small.serve()


async def test_an_engine_that_gets_ready_on_a_full_disk_says_so_once_there_is_room(tmp_path, machine):
    engine = adapter(machine.shard().profile.engine)
    with SmallDisk(tmp_path / "logs", mib=1) as disk:
        log = tmp_path / "logs" / "engine.log"
        log.touch()
        disk.fill()
        with EngineProcess(shard_for(machine.model), log=log) as process:
            await asyncio.sleep(4)
            assert process.process.poll() is None
            assert engine.ready_line(process.log_text) is None
            disk.free()
            started = await process.started()
            assert started.pid == process.process.pid
            process.process.terminate()
            assert await process.ended() == 0
