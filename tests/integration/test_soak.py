"""Mixed load for a while: memory stays flat, nothing stays counted, what is known of caches stays within its bound.

A minute in the full suite; `LLMGW_SOAK_S=600` for ten.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator

import openai
import psutil
import pytest

from llmgw.testing.fake_engine import FakeEngine, Fault
from llmgw.testing.gateway_process import Site, until
from llmgw.testing.gateway_room import a_replica, a_route, a_view

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("LLMGW_SOAK_S", "60"))
STREAMS = 500
CHURN = 4
"""Clients whose prompts are all new, 64 KiB each: ten a second each would fill what is kept within minutes."""
MOST_GROWTH = 48 * 1024 * 1024
"""Of all workers together after the first quarter: what is kept of prompts fills up to some 25 MB a worker."""


@pytest.fixture
async def site(tmp_path) -> AsyncIterator[tuple[Site, list[FakeEngine]]]:
    async with contextlib.AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(FakeEngine(model="tiny")) for _ in range(3)]
        for engine in engines:
            engine.tokens, engine.chunk_s = 40, 0.25
        replicas = [a_replica(f"r{number}", engine.url) for number, engine in enumerate(engines)]
        site = await stack.enter_async_context(Site(tmp_path, a_view(a_route(*replicas)), workers=2))
        await site.gateway.knows()
        yield site, engines


class Load:
    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self.client = client
        self.asked = self.left = self.failed = 0

    async def stream(self, number: int, ending: float) -> None:
        """Hold conversations; now and then the client leaves in the middle."""
        dice, now = random.Random(number), asyncio.get_running_loop().time
        while now() < ending:
            self.asked += 1
            leaves_after = dice.randrange(40) if dice.random() < 0.1 else None
            with contextlib.suppress(openai.APIError):
                text = f"conversation {number} " * 20
                asked = {"model": "tiny", "messages": [{"role": "user", "content": text}], "stream": True}
                async with await self.client.chat.completions.create(**asked) as chunks:
                    count = 0
                    async for _ in chunks:
                        count += 1
                        if count == leaves_after or now() > ending + 5:
                            self.left += 1
                            break

    async def churn(self, number: int, ending: float) -> None:
        """Ask what nobody asked before."""
        dice, now = random.Random(f"churn {number}"), asyncio.get_running_loop().time
        while now() < ending:
            self.asked += 1
            text = dice.randbytes(32 * 1024).hex()
            try:
                await self.client.completions.create(model="tiny", prompt=text, max_tokens=1)
            except openai.APIError:
                self.failed += 1
            await asyncio.sleep(0.1)


def memory(site: Site) -> int:
    return sum(
        psutil.Process(worker.pid).memory_info().rss for worker in psutil.Process(site.gateway.process.pid).children()
    )


async def test_nothing_grows_and_nothing_stays_counted(site):
    place, engines = site
    ending = asyncio.get_running_loop().time() + SECONDS
    async with place.gateway.client() as client:
        load = Load(client)
        asking = [asyncio.ensure_future(load.stream(number, ending)) for number in range(STREAMS)]
        asking += [asyncio.ensure_future(load.churn(number, ending)) for number in range(CHURN)]
        await asyncio.sleep(SECONDS / 4)
        early = memory(place)
        engines[0].fail(Fault.DIE, arg=3, times=50)
        await asyncio.gather(*asking)
        late = memory(place)
    assert load.asked > STREAMS
    assert load.left > 0
    assert late - early < MOST_GROWTH, f"from {early / 2**20:.0f} to {late / 2**20:.0f} MiB"
    gauges = ("llmgw_gateway_in_flight", "llmgw_gateway_queue_depth")
    await until(lambda: not [key for key, value in place.control.metrics().items() if key[0] in gauges and value])
    for engine in engines:
        await engine.until(lambda counts: counts.started == counts.finished + counts.aborted + counts.faulted)
    print(f"{load.asked} asked, {load.left} left, {early / 2**20:.0f} then {late / 2**20:.0f} MiB")  # noqa: T201 (figures)
