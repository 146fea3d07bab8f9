"""Gateways alone on one machine that share a folder: what one put to an engine, the others put there too."""

import asyncio
import contextlib
import itertools
import subprocess
import sys
from collections.abc import AsyncIterator

import openai
import pytest

from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.gateway_process import GENEROUS_S, free_port

CONVERSATIONS = [f"conversation {number}: " + "what was said before " * 100 for number in range(10)]


@contextlib.asynccontextmanager
async def a_gateway(engines, folder) -> AsyncIterator[openai.AsyncOpenAI]:
    port = free_port()
    words = ["gateway", "--port", str(port), "--model", "tiny", "--engine", ",".join(one.url for one in engines)]
    process = subprocess.Popen(  # noqa: ASYNC220 (a moment's blocking harms no test)
        [sys.executable, "-m", "llmgw", *words, "--workers", "2", "--share", str(folder)]
    )
    try:
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none") as client:
            async with asyncio.timeout(GENEROUS_S):
                while True:
                    with contextlib.suppress(openai.APIConnectionError):
                        await client.models.list()
                        break
                    await asyncio.sleep(0.05)
            yield client
    finally:
        process.terminate()
        assert await asyncio.to_thread(process.wait, GENEROUS_S) == 0


async def put(client: openai.AsyncOpenAI, text: str) -> openai.AsyncStream:
    stream = await client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": text}], stream=True
    )
    await anext(stream)
    return stream


async def put_all_at_once(client: openai.AsyncOpenAI, engine: FakeEngine, texts: list[str]) -> list[bool]:
    """Hold all streams open: each goes where there is less to do. Says which went to `engine`."""
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for text in texts:
            before = len(engine.requests)
            await stack.enter_async_context(await put(client, text))
            found.append(len(engine.requests) > before)
        return found


async def goes_to(client: openai.AsyncOpenAI, engine: FakeEngine, text: str) -> bool:
    before = len(engine.requests)
    async with await put(client, text):
        return len(engine.requests) > before


@pytest.fixture
async def engines() -> AsyncIterator[list[FakeEngine]]:
    async with FakeEngine(model="tiny") as one, FakeEngine(model="tiny") as other:
        for engine in (one, other):
            engine.tokens, engine.chunk_s = 2000, 0.05
        yield [one, other]


async def test_they_find_each_other_and_route_by_what_all_of_them_know(engines, tmp_path):
    async with a_gateway(engines, tmp_path / "share") as first, a_gateway(engines[::-1], tmp_path / "share") as second:
        async with asyncio.timeout(GENEROUS_S):
            for attempt in itertools.count():  # the first ones may come before they found each other
                texts = [f"{attempt} {text}" for text in CONVERSATIONS]
                where = await put_all_at_once(first, engines[0], texts)
                assert 2 <= sum(where) <= len(where) - 2
                if where == [await goes_to(second, engines[0], text) for text in texts]:
                    break
    assert list((tmp_path / "share").iterdir()) == []
