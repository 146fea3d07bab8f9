import asyncio
import threading

import pytest

from llmgw.agent import load
from llmgw.agent.load import LoadMeter


@pytest.fixture
def now(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(load.time, "monotonic", lambda: now[0])
    return now


async def test_before_the_first_look_nothing_is_known():
    assert LoadMeter(dict, period_s=5.0).last() is None


async def test_a_measurement_carries_its_age_until_the_next(now):
    meter = LoadMeter(dict, period_s=5.0)
    await meter.look()
    fresh = meter.last()
    assert fresh.age_s == 0.0
    assert fresh.memory_available_bytes is not None
    now[0] += 1.5
    again = meter.last()
    assert (again.age_s, again.memory_used_bytes) == (1.5, fresh.memory_used_bytes)
    await meter.look()
    assert meter.last().age_s == 0.0


async def test_a_measurement_older_than_a_minute_is_never_told_again(now):
    meter = LoadMeter(dict, period_s=5.0)
    await meter.look()
    now[0] += 60.5
    assert meter.last() is None


async def test_engines_that_cannot_be_read_do_not_keep_the_nodes_load_back(monkeypatch):
    monkeypatch.setattr(load, "SHARDS_WAIT_S", 0.01)
    locked, asked = threading.Event(), []

    def stuck(_):
        asked.append(1)
        locked.wait(30)
        return ()

    meter = LoadMeter(dict, period_s=5.0)
    meter._shards.measure = stuck
    try:
        for _ in range(3):
            await meter.look()
            assert meter.last().shards == ()
        assert len(asked) == 1, "what hangs is not asked again"
    finally:
        locked.set()


async def test_what_cannot_be_understood_ends_nothing(monkeypatch):
    meter, looks = LoadMeter(dict, period_s=5.0), asyncio.Event()

    def broken():
        loop.call_soon_threadsafe(looks.set)
        raise ValueError("what a strange /proc")

    loop = asyncio.get_running_loop()
    meter._node.measure = broken
    task = asyncio.create_task(meter.run())
    async with asyncio.timeout(20):
        await looks.wait()
    await asyncio.sleep(0.1)
    assert not task.done()
    assert meter.last() is None
    task.cancel()
