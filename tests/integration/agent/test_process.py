"""A real agent process with real engines and a real door, under a control plane that does what a test asks for."""

import asyncio
import contextlib
import os
import signal

import aiohttp
import msgspec
import pytest

from llmgw.hardware import proc
from llmgw.schema.desired import Mode
from llmgw.schema.link import Hello
from llmgw.schema.replica import ShardPhase
from llmgw.testing.gguf import write_counting_model


def is_gone(pid):
    stat = proc.read_stat(pid)
    return stat is None or stat.gone


async def ask(base, key=None, **body):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = {"model": "tiny", "prompt": " 4", "max_tokens": 2, **body}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{base}/v1/completions", json=request, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return (await answer.json())["choices"][0]["text"]


async def test_an_agent_registers_with_all_it_knows(machine):
    await machine.start()
    hello = machine.control.hellos[0]
    assert isinstance(hello, Hello)
    assert (hello.node, hello.shards, hello.epoch) == ("n1", (), 0)
    facts = hello.facts
    assert facts.address == "127.0.0.1"
    assert facts.place == proc.place()
    assert facts.host.cores_usable
    assert facts.memory_bytes
    assert [weights.path for weights in facts.weights] == [str(machine.model)]
    assert facts.storage[0].free_bytes
    assert facts.engines_probed
    assert [engine.kind for engine in facts.engines] == ["llamacpp"]
    await machine.control.until(lambda: any(getattr(one, "load", None) for one in machine.control.messages))


async def test_a_wanted_model_answers_directly_and_through_the_door(machine):
    await machine.start()
    report = await machine.serve()
    assert (report.slots, report.context) == (4, 4096)
    assert report.engine_version
    assert await ask(report.endpoint, machine.shard().key) == " 5 6"
    await machine.control.until(lambda: machine.control.facts.door is not None)
    door = f"http://{machine.control.facts.door}"
    assert await ask(f"{door}/shards/{report.id}") == " 5 6"


async def test_an_agents_death_touches_no_engine_and_the_next_agent_adopts(machine):
    await machine.start()
    before = await machine.serve()
    await machine.control.until(lambda: machine.control.facts.door is not None)
    door = machine.control.facts.door
    assert await machine.end(signal.SIGKILL) == -signal.SIGKILL
    assert await ask(before.endpoint, machine.shard().key) == " 5 6"
    assert await ask(f"http://{door}/shards/{before.id}") == " 5 6"
    await machine.start()
    (after,) = machine.control.hellos[-1].shards
    assert after.phase is ShardPhase.READY
    assert after.adopted
    assert (after.pid, after.endpoint) == (before.pid, before.endpoint)
    assert machine.control.hellos[-1].generation == 1
    await machine.control.until(lambda: machine.control.facts.door == door)
    machine.control.order([machine.shard()])
    await asyncio.sleep(1.5)
    assert machine.control.phases[before.id] == [ShardPhase.STARTING, ShardPhase.READY]


async def test_an_agent_asked_to_end_leaves_its_engines_running(machine):
    await machine.start()
    report = await machine.serve()
    assert await machine.end(signal.SIGTERM) == 0
    assert await ask(report.endpoint, machine.shard().key) == " 5 6"


async def test_a_killed_engine_is_told_at_once_and_the_next_attempt_serves(machine):
    await machine.start()
    before = await machine.serve()
    os.kill(before.pid, signal.SIGKILL)
    dead = await machine.until(ShardPhase.DEAD)
    assert (dead.death.status, dead.death.asked) == (-9, False)
    after = await machine.serve(attempt=2)
    assert after.pid != before.pid
    assert await ask(after.endpoint, machine.shard().key) == " 5 6"
    assert is_gone(before.pid)


async def test_a_frozen_engine_is_found_and_ended(machine):
    await machine.start()
    report = await machine.serve()
    os.kill(report.pid, signal.SIGSTOP)
    dead = await machine.until(ShardPhase.DEAD)
    assert "stopped by a signal" in dead.death.cause
    assert is_gone(report.pid)


async def test_a_long_answer_of_a_busy_engine_ends_before_the_engine_does(machine):
    await machine.start()
    report = await machine.serve()
    long = asyncio.create_task(ask(report.endpoint, machine.shard().key, max_tokens=400))
    await asyncio.sleep(0.02)
    machine.control.order([])
    assert len((await long).split()) == 400
    await machine.control.until(lambda: report.id not in machine.control.reports)
    assert is_gone(report.pid)


async def test_stale_orders_are_refused_also_after_a_restart(machine):
    await machine.start()
    report = await machine.serve()
    machine.control.order([], epoch=0, holder="an-old-leader")
    assert (await machine.control.refusal()).highest_epoch == 1
    machine.control.order([], holder="an-impostor")
    assert "belongs to control-1" in (await machine.control.refusal()).reason
    machine.control.order([], generation=0)
    assert "generation 0 is older" in (await machine.control.refusal()).reason
    await machine.end(signal.SIGKILL)
    await machine.start()
    machine.control.order([], generation=0)
    assert "generation 0 is older" in (await machine.control.refusal()).reason
    machine.control.order([], mode=Mode.OBSERVE, generation=5)
    await asyncio.sleep(1.0)
    assert machine.control.reports[report.id].phase is ShardPhase.READY


async def test_a_broken_file_fails_with_its_cause_and_its_log_can_be_read(machine):
    machine.model.write_bytes(b"this is no model")
    await machine.start()
    assert machine.control.hellos[0].facts.weights[0].problem == "is not GGUF: it starts with b'this'"
    machine.control.order([machine.shard()])
    dead = await machine.until(ShardPhase.DEAD)
    assert not dead.death.heals
    assert dead.death.log_line
    reply = await machine.control.read_log(machine.shard().id)
    assert reply.attempt == 1
    assert dead.death.log_line in reply.text
    assert (await machine.control.read_log("nobody.0")).error == "this node has no log of shard nobody.0"


async def test_watched_paths_are_looked_at_when_ordered(machine):
    await machine.start()
    elsewhere = machine.root / "elsewhere.gguf"
    write_counting_model(elsewhere)
    missing = str(machine.root / "missing.gguf")
    machine.control.order([], watch_paths=[str(elsewhere), missing])
    await machine.control.until(lambda: len(machine.control.facts.watched) == 2)
    found, absent = machine.control.facts.watched
    assert found.present
    assert found.problem is None
    assert not absent.present
    assert absent.problem == f"there is nothing at {missing} on this node"


async def test_stopping_engines_without_an_agent_leaves_nothing(machine):
    await machine.start()
    report = await machine.serve()
    await machine.control.until(lambda: machine.control.facts.door is not None)
    door = msgspec.json.decode((machine.root / "data" / "door.json").read_bytes())
    await machine.end(signal.SIGKILL)
    assert (await machine.command("--stop-engines"))[0] == 0
    assert is_gone(report.pid)
    assert is_gone(door["pid"])
    for address in (report.endpoint.removeprefix("http://"), door["listen"]):
        host, _, port = address.rpartition(":")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, int(port))
    assert list((machine.root / "data" / "shards").iterdir()) == []
    assert (await machine.command("--stop-engines"))[0] == 0, "again is nothing to do"


async def test_a_second_agent_in_the_same_folder_says_so(machine):
    await machine.start()
    status, output = await machine.command()
    assert status == 1
    assert "another agent runs with the data folder" in output


async def test_a_killed_door_comes_back_with_the_engines(machine):
    await machine.start()
    report = await machine.serve()
    await machine.control.until(lambda: machine.control.facts.door is not None)
    before = msgspec.json.decode((machine.root / "data" / "door.json").read_bytes())
    os.kill(before["pid"], signal.SIGKILL)
    await machine.control.until(lambda: machine.control.facts.door not in {None, before["listen"]})
    door = f"http://{machine.control.facts.door}"
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(AssertionError):
                assert await ask(f"{door}/shards/{report.id}") == " 5 6"
                break
            await asyncio.sleep(0.1)
