"""Sick engines are told from busy ones by progress: stuck, frozen, slow to start; two real ones that are only busy."""

import asyncio
import os
import signal
import time

import aiohttp
import msgspec
import pytest

from llmgw.agent import process_group
from llmgw.agent.liveness import STUCK_S
from llmgw.schema.model import Profile
from llmgw.schema.replica import ShardPhase
from llmgw.testing.engine_process import KEY, shard_for

ONE_WAY = pytest.mark.parametrize("node", ["session"], indirect=True)
"""How a group is held together makes no difference here."""


async def post(url, body, key=KEY, timeout_s=600):
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(url, json=body, headers={"Authorization": f"Bearer {key}"}) as answer,
    ):
        return await answer.json()


@ONE_WAY
async def test_a_stuck_slot_is_found_though_health_and_list_answer(node, make_shard):
    shard = make_shard(faults="fake")
    async with node.running():
        node.order(shard)
        ready = await node.until(shard, ShardPhase.READY)
        await asyncio.sleep(6)
        assert node.report(shard).phase is ShardPhase.READY, "an idle engine makes no progress either"
        await post(f"{ready.endpoint}/__control", {"fault": "hang", "times": 9})
        began = time.monotonic()
        body = {"model": "tiny", "prompt": "x", "max_tokens": 9}
        held = asyncio.create_task(post(f"{ready.endpoint}/v1/completions", body))
        await asyncio.sleep(STUCK_S / 2)
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
            for path in ("/health", "/v1/models"):
                async with session.get(ready.endpoint + path) as answer:
                    assert answer.status == 200
        dead = await node.until(shard, ShardPhase.DEAD, within_s=60)
        assert STUCK_S - 5 < time.monotonic() - began < 35
        assert dead.death.cause.startswith("the engine did not work on its open requests (1) for ")
        assert dead.death.counts
        with pytest.raises(aiohttp.ClientError):
            await held


@ONE_WAY
@pytest.mark.parametrize("sign", ["talks_long", "grows_long"])
async def test_a_slow_start_that_shows_progress_is_waited_for(sign, node, make_shard):
    node.start_timeout_s = 4.0
    shard = make_shard(faults=sign)
    async with node.running():
        node.order(shard)
        began = time.monotonic()
        await node.until(shard, ShardPhase.READY, within_s=60)
        assert time.monotonic() - began > node.start_timeout_s
        node.order()
        await node.until(shard, None)


@ONE_WAY
async def test_an_engine_frozen_while_it_starts_is_found_long_before_the_time_to_start_is_over(node, make_shard):
    shard = make_shard(faults="never_ready")
    async with node.running():
        node.order(shard)
        async with asyncio.timeout(20):
            while "loading" not in [report.progress for report in node.supervisor.reports()]:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.02)
        os.kill(node.report(shard).pid, signal.SIGSTOP)
        dead = await node.until(shard, ShardPhase.DEAD, within_s=30)
        assert "stopped by a signal while it started" in dead.death.cause


async def test_engines_of_another_agent_on_the_machine_are_left_alone(node, make_shard, tmp_path):
    shard = make_shard()
    stranger = process_group.start(
        "rsomebodyes.0", ("sleep", "60"), {}, owner="another-agent", log_path=tmp_path / "log", cgroup_mount=None
    )
    await stranger.feed(b"")
    try:
        async with node.running():
            node.order(shard)
            await node.until(shard, ShardPhase.READY)
            node.order()
            await node.until(shard, None)
        assert process_group.is_leader_alive(stranger.identity)
    finally:
        await stranger.destroy()
        stranger.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_long_answer_a_queue_behind_it_and_a_long_prompt_are_not_taken_for_dead(machine):
    """Each lasts longer than a stuck engine may."""
    profile = Profile(slots=1, context=4096, flags={"n_batch": "4096"})
    answering, reading = (
        msgspec.structs.replace(shard_for(path, profile=profile), id=f"{name}.0", replica=name)
        for name, path in (
            (machine.shard().replica, machine.weights(zero_layers=12)),
            (machine.shard().replica.replace("r", "q", 1), machine.weights(zero_layers=48)),
        )
    )
    await machine.start()
    machine.control.order([answering, reading])
    first, second = [await machine.until(ShardPhase.READY, shard=shard) for shard in (answering, reading)]
    began = time.monotonic()

    async def ask(report, prompt, max_tokens):
        body = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "cache_prompt": False}
        answer = await post(f"{report.endpoint}/v1/completions", body)
        return answer["choices"][0]["text"], time.monotonic() - began

    long = asyncio.create_task(ask(first, " 1", 2100))
    prompt = asyncio.create_task(ask(second, " 7" * 3000, 2))
    await asyncio.sleep(1)
    queued = [asyncio.create_task(ask(first, " 4", 2)) for _ in range(3)]
    (counted, counted_s), (read, read_s) = await long, await prompt
    assert counted == "".join(f" {number}" for number in range(2, 2001))
    assert read == " 8 9"
    assert [text for text, _ in await asyncio.gather(*queued)] == [" 5 6"] * 3
    assert min(counted_s, read_s) > STUCK_S, "too quick to show anything: give the models more layers"
    for shard in (answering, reading):
        assert machine.control.phases[shard.id] == [ShardPhase.STARTING, ShardPhase.READY]


async def test_the_first_and_the_last_log_of_a_failing_start_are_kept(machine):
    machine.model.write_bytes(b"this is no model")
    await machine.start()
    for attempt in range(1, 9):
        machine.control.order([machine.shard(attempt)])
        await machine.until(ShardPhase.DEAD, attempt)
    for attempt in (1, 8):
        reply = await machine.control.read_log(machine.shard().id, attempt)
        assert "E gguf_init_from_reader: invalid magic" in reply.text
    assert "no log of attempt 2" in (await machine.control.read_log(machine.shard().id, 2)).error


async def test_damaged_small_weights_fail_their_start_with_the_tensor_named(machine):
    whole = bytearray(machine.model.read_bytes())
    whole[-4000:-3000] = b"\xff" * 1000
    machine.model.write_bytes(whole)
    await machine.start()
    machine.control.order([machine.shard()])
    death = (await machine.until(ShardPhase.DEAD)).death
    assert death.cause == "The weights file is damaged within tensor output.weight; fetch it again"
    assert not death.heals
