"""The plan worker as a real process: it plans, dies, is frozen, and never outlives its control plane."""

import asyncio
import os
import signal
import sys

import psutil
import pytest

from llmgw.core.planner import plan
from llmgw.server import plan_process
from llmgw.server.plan_process import PlanFailed, PlanProcess
from llmgw.testing.factories import make_devices, make_model, make_node, make_snapshot


def fleet(nodes=300):
    return make_snapshot([make_node(f"n{n:03}", devices=make_devices(8)) for n in range(nodes)], [make_model(min=3)])


@pytest.fixture
async def process():
    made = PlanProcess()
    yield made
    await made.stop()


async def test_it_plans_as_this_process_would_and_stays_for_the_next_plan(process):
    snapshot = fleet()
    assert process.differs(snapshot)
    assert await process.plan(snapshot) == plan(snapshot)
    assert not process.differs(snapshot)
    assert await process.plan(fleet(100)) == plan(fleet(100))
    assert process.starts == 1


async def test_one_that_died_is_started_anew_and_told_everything_again(process):
    await process.plan(fleet())
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(PlanFailed):
        await process.plan(fleet(200))
    assert process.differs(fleet(200))
    assert await process.plan(fleet(200)) == plan(fleet(200))
    assert process.starts == 2


async def test_one_that_does_not_answer_is_killed(process, monkeypatch):
    await process.plan(fleet())
    monkeypatch.setattr(plan_process, "ANSWER_S", 0.5)
    worker = psutil.Process(process.pid)
    os.kill(worker.pid, signal.SIGSTOP)
    with pytest.raises(PlanFailed, match="TimeoutError"):
        await process.plan(fleet(200))
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


async def test_a_plan_given_up_does_not_answer_the_next_question(process):
    asking = asyncio.ensure_future(process.plan(fleet()))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert await process.plan(fleet(100)) == plan(fleet(100))


async def test_one_that_cannot_be_started_says_so():
    with pytest.raises(PlanFailed, match="FileNotFoundError"):
        await PlanProcess(("/nonexistent/python",)).plan(fleet(1))


async def test_one_that_says_something_else_is_not_believed():
    chatter = PlanProcess((sys.executable, "-c", "print('hello, this is not a plan at all', flush=True)"))
    with pytest.raises(PlanFailed):
        await chatter.plan(fleet(1))


async def test_it_ends_when_its_control_plane_is_gone(process):
    await process.plan(fleet(1))
    worker = psutil.Process(process.pid)
    process._process.stdin.close()
    await asyncio.wait_for(process._process.wait(), 10)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
