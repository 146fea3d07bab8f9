"""Large bodies and slow clients cost a bounded amount of memory, and other requests go on."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable

import psutil
import pytest

from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.gateway_process import GENEROUS_S, GatewayProcess, Site
from llmgw.testing.gateway_room import SECRET, a_replica, a_route, a_view
from llmgw.testing.raw_http import Client

MIB = 1024 * 1024
HEAD = f"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {SECRET}\r\n".encode()
GOOD = json.dumps({"model": "tiny", "messages": []}).encode()
DRIBBLERS = 60


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    async with FakeEngine(model="tiny") as one:
        yield one


@pytest.fixture
async def served(tmp_path, engine) -> AsyncIterator[Callable]:
    sites: list[Site] = []

    async def make(**options) -> GatewayProcess:
        sites.append(Site(tmp_path, a_view(a_route(a_replica("r1", engine.url))), **options))
        await sites[-1].__aenter__()
        await sites[-1].gateway.knows()
        return sites[-1].gateway

    yield make
    for site in sites:
        await site.__aexit__()


async def ask(port: int) -> tuple[int, float]:
    begun = time.monotonic()
    client = await Client.connect(port)
    async with asyncio.timeout(GENEROUS_S):
        await client.send(HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(GOOD), GOOD))
        status, _, _ = await client.answer()
    client.writer.close()
    return status, time.monotonic() - begun


async def upload(port: int, *, declared: bool) -> tuple[int, str]:
    """Send 100 MB, whatever is answered meanwhile."""
    client = await Client.connect(port)
    block = b"a" * MIB
    if declared:
        client.writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % (100 * MIB))
    else:
        client.writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        block = b"%x\r\n%b\r\n" % (len(block), block)

    async def send() -> None:
        for _ in range(100):
            client.writer.write(block)
            await client.writer.drain()

    sending = asyncio.ensure_future(send())
    status, _, body = await asyncio.wait_for(client.answer(), GENEROUS_S)
    sending.cancel()
    await asyncio.wait({sending})
    client.writer.transport.abort()
    return status, json.loads(body)["error"]["code"]


class Memory:
    """The most memory the workers had, looked at often."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._workers = [psutil.Process(pid) for pid in gateway.workers()]
        self.before = self._now()
        self.most = self.before
        self._watching = asyncio.ensure_future(self._watch())

    def _now(self) -> int:
        return sum(worker.memory_info().rss for worker in self._workers)

    async def _watch(self) -> None:
        while True:
            self.most = max(self.most, self._now())
            await asyncio.sleep(0.01)

    def growth(self) -> int:
        self._watching.cancel()
        return max(self.most, self._now()) - self.before


async def test_bodies_of_100_mb_are_refused_in_bounded_memory_while_others_go_on(served, engine):
    gateway = await served()
    memory = Memory(gateway)
    uploads = asyncio.gather(*(upload(gateway.port, declared=declared) for declared in (True, True, True, False)))
    others = [await ask(gateway.port) for _ in range(20)]

    assert set(await uploads) == {(413, "body_too_large")}
    assert {status for status, _ in others} == {200}
    assert engine.counts.started == 20
    # Only the one without a declared length is read at all, up to the limit of 32 MiB; its buffer may double once.
    assert memory.growth() < 80 * MIB


async def test_clients_that_dribble_hold_nobody_up_and_are_sent_away(served, engine):
    gateway = await served(more="header_timeout_s = 1.5\nbody_timeout_s = 1.5\n")
    memory = Memory(gateway)

    async def dribble(number: int) -> int:
        client = await Client.connect(gateway.port)
        whole = HEAD + b"Content-Length: 1000\r\n\r\n" + b"a" * 1000
        at = 10 if number % 2 else len(whole) - 1000  # half of them within the head, half within the body
        client.writer.write(whole[:at])
        answering = asyncio.ensure_future(client.answer())
        while not answering.done():
            client.writer.write(whole[at : at + 1])
            at += 1
            await asyncio.wait({answering}, timeout=0.1)
        client.writer.transport.abort()
        return answering.result()[0]

    dribbling = asyncio.gather(*(dribble(number) for number in range(DRIBBLERS)))
    others = [await ask(gateway.port) for _ in range(30)]

    assert {status for status, _ in others} == {200}
    assert sorted(seconds for _, seconds in others)[15] < 0.5  # generous: the ratio is measured by a benchmark
    assert set(await asyncio.wait_for(dribbling, GENEROUS_S)) == {408}
    assert engine.counts.started == 30
    assert memory.growth() < 30 * MIB
