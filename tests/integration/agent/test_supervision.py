"""The agent's supervisor over real processes: small scripts stand in for engines, so that they can misbehave."""

import asyncio
import os
import signal
import time

import msgspec
import pytest

from llmgw.agent import process_group
from llmgw.hardware import proc
from llmgw.schema.desired import Mode
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import Death


async def eventually(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.02)


def is_gone(pid):
    stat = proc.read_stat(pid)
    return stat is None or stat.gone


async def test_a_wanted_engine_gets_ready_and_an_unwanted_one_leaves_nothing(node, make_shard):
    shard = make_shard(faults="child")
    async with node.running():
        node.order(shard)
        report = await node.until(shard, ShardPhase.READY)
        assert report.endpoint is not None
        assert report.engine_version == "1.0"
        assert not report.adopted
        pids = process_group.members(node.state.records()[0].identity, leader_known=True)
        assert len(pids) == 2
        assert os.getsid(report.pid) == report.pid
        assert [one.endpoint for one in node.supervisor.door_shards()] == [report.endpoint]
        node.order()
        await node.until(shard, None)
        assert all(is_gone(pid) for pid in pids)
        assert node.state.records() == ()
        assert node.phases.index(ShardPhase.STOPPING) > node.phases.index(ShardPhase.READY)


async def test_observing_leaves_a_running_engine_and_starts_none(node, make_shard):
    shard = make_shard()
    async with node.running():
        node.order(shard, mode=Mode.OBSERVE)
        await asyncio.sleep(0.3)
        assert node.supervisor.reports() == ()
        node.order(shard)
        ready = await node.until(shard, ShardPhase.READY)
        node.order(mode=Mode.OBSERVE)
        await asyncio.sleep(0.3)
        assert node.report(shard) == ready
        node.order()
        await node.until(shard, None)


async def test_a_killed_engine_is_reported_dead_with_its_whole_group_gone(node, make_shard):
    shard = make_shard(faults="child")
    async with node.running():
        node.order(shard)
        report = await node.until(shard, ShardPhase.READY)
        pids = process_group.members(node.state.records()[0].identity, leader_known=True)
        os.kill(report.pid, signal.SIGKILL)
        dead = await node.until(shard, ShardPhase.DEAD)
        assert dead.death == Death(status=-9, asked=False, cause="ended")
        assert dead.pid is None
        assert all(is_gone(pid) for pid in pids)
        await asyncio.sleep(0.3)
        assert node.report(shard).phase is ShardPhase.DEAD, "only the control plane orders another attempt"
        node.order(make_shard(attempt=2))
        again = await node.until(shard, ShardPhase.READY, attempt=2)
        assert again.pid != report.pid
        assert again.death is None
        node.order()
        await node.until(shard, None)


async def test_a_higher_attempt_replaces_a_running_engine_after_it_ended(node, make_shard):
    async with node.running():
        node.order(make_shard())
        first = await node.until(make_shard(), ShardPhase.READY)
        node.order(make_shard(attempt=2))
        second = await node.until(make_shard(), ShardPhase.READY, attempt=2)
        assert is_gone(first.pid)
        assert second.endpoint != first.endpoint
        node.order()
        await node.until(make_shard(), None)


async def test_an_engine_deaf_to_term_is_killed_after_its_grace(node, make_shard):
    shard = make_shard(faults="deaf_to_term", grace_s=0.2)
    async with node.running():
        node.order(shard)
        report = await node.until(shard, ShardPhase.READY)
        began = time.monotonic()
        node.order()
        await node.until(shard, None)
        assert 2.0 <= time.monotonic() - began < 15
        assert is_gone(report.pid)


async def test_a_restarted_agent_adopts_its_engine_and_later_ends_it(node, make_shard):
    shard = make_shard(faults="child")
    async with node.running():
        node.order(shard)
        before = await node.until(shard, ShardPhase.READY)
    async with node.running():
        after = node.report(shard)
        assert after is not None
        assert after.phase is ShardPhase.READY
        assert after.adopted
        assert (after.pid, after.endpoint, after.started_at) == (before.pid, before.endpoint, before.started_at)
        pids = process_group.members(node.state.records()[0].identity, leader_known=True)
        await asyncio.sleep(0.3)
        assert not is_gone(before.pid), "without an order nothing is ended"
        node.order()
        await node.until(shard, None)
        assert all(is_gone(pid) for pid in pids)


async def test_an_engine_that_died_while_no_agent_watched_is_reported_dead_not_restarted(node, make_shard):
    shard = make_shard(faults="child")
    async with node.running():
        node.order(shard)
        before = await node.until(shard, ShardPhase.READY)
        pids = process_group.members(node.state.records()[0].identity, leader_known=True)
    os.kill(before.pid, signal.SIGKILL)
    await asyncio.to_thread(os.waitpid, before.pid, 0)
    async with node.running():
        dead = node.report(shard)
        assert dead is not None
        assert dead.phase is ShardPhase.DEAD
        assert dead.death is not None
        assert dead.death.status is None
        assert all(is_gone(pid) for pid in pids), "what the leader left behind is killed"
        node.order(shard)
        await asyncio.sleep(0.3)
        assert node.report(shard).phase is ShardPhase.DEAD
        node.order()
        await node.until(shard, None)
        assert node.state.records() == ()


async def test_a_reused_pid_is_not_taken_for_the_engine(node, make_shard):
    shard = make_shard()
    async with node.running():
        node.order(shard)
        before = await node.until(shard, ShardPhase.READY)
    (record,) = node.state.records()
    stranger = record.identity
    later = msgspec.structs.replace(stranger, start_ticks=stranger.start_ticks + 1, name="somebody-else", cgroup=None)
    node.state.save_record(msgspec.structs.replace(record, identity=later))
    async with node.running():
        assert node.report(shard).phase is ShardPhase.DEAD
        assert not is_gone(before.pid), "the pid belongs to somebody else now: it is left alone"
    node.state.save_record(record)


async def test_after_a_restart_of_the_machine_the_death_does_not_count(node, make_shard):
    shard = make_shard()
    async with node.running():
        node.order(shard)
        before = await node.until(shard, ShardPhase.READY)
    (record,) = node.state.records()
    old = msgspec.structs.replace(record.identity, boot_id="another-boot")
    node.state.save_record(msgspec.structs.replace(record, identity=old))
    async with node.running():
        death = node.report(shard).death
        assert death == Death(status=None, asked=False, cause="the machine was restarted", counts=False)
        assert not is_gone(before.pid)
    node.state.save_record(record)


async def test_an_adopted_process_that_serves_another_model_is_ended(node, make_shard):
    shard = make_shard()
    async with node.running():
        node.order(shard)
        before = await node.until(shard, ShardPhase.READY)
    (record,) = node.state.records()
    other = msgspec.structs.replace(record.desired, model="something-else")
    node.state.save_record(msgspec.structs.replace(record, desired=other))
    async with node.running():
        dead = await node.until(shard, ShardPhase.DEAD)
        assert "adopted, but not as expected" in dead.death.cause
        assert is_gone(before.pid)


async def test_a_start_cut_short_by_the_agents_death_leaves_nothing(node, make_shard):
    shard = make_shard()
    async with node.running():
        node.order(shard)
        before = await node.until(shard, ShardPhase.READY)
    (record,) = node.state.records()
    node.state.save_record(msgspec.structs.replace(record, identity=None, ready=False))
    async with node.running():
        assert node.supervisor.reports() == ()
        assert is_gone(before.pid)
        node.order(shard)
        after = await node.until(shard, ShardPhase.READY)
        assert after.pid != before.pid
        node.order()
        await node.until(shard, None)


@pytest.mark.parametrize(
    ("faults", "status", "cause"),
    [
        ("fails", 3, "E cannot load: the weights are made of cheese"),
        ("bad_flag", None, "unknown flag --moon"),
        ("no_program", None, "the engine could not be started: [Errno 2]"),
        ("wrong_name", -9, "the engine started but does not serve: the engine serves another, not tiny"),
    ],
)
async def test_a_start_that_fails_says_why(node, make_shard, faults, status, cause):
    shard = make_shard(faults=faults)
    async with node.running():
        node.order(shard)
        death = (await node.until(shard, ShardPhase.DEAD)).death
        assert death.cause.startswith(cause)
        assert (death.status, death.asked, death.heals) == (status, False, faults != "bad_flag")


async def test_a_start_without_progress_is_given_up(node, make_shard):
    shard = make_shard(faults="never_ready")
    node.start_timeout_s = 1.0
    async with node.running():
        node.order(shard)
        starting = await node.until(shard, ShardPhase.STARTING)
        dead = await node.until(shard, ShardPhase.DEAD)
        assert dead.death.cause == "starting made no progress for 1 s (last: loading)"
        assert is_gone(starting.pid or 0) or starting.pid is None


async def test_a_starting_engine_is_ended_when_it_is_no_longer_wanted(node, make_shard):
    shard = make_shard(faults="never_ready")
    async with node.running():
        node.order(shard)
        await eventually(lambda: node.report(shard) is not None and node.report(shard).progress == "loading")
        report = node.report(shard)
        node.order()
        await node.until(shard, None)
        assert is_gone(report.pid)


async def test_orphans_among_our_descendants_are_waited_for(node, make_shard):
    proc.become_subreaper()
    shard = make_shard(faults="child")
    async with node.running():
        node.order(shard)
        await node.until(shard, ShardPhase.READY)
        pids = process_group.members(node.state.records()[0].identity, leader_known=True)
        node.order()
        await node.until(shard, None)
        await eventually(lambda: all(proc.read_stat(pid) is None for pid in pids))
