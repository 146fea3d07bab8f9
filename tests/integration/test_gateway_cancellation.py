"""Clients that leave: the engine hears of it at once, on every route and at every moment, and nothing stays counted."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from llmgw.schema.model import Role
from llmgw.testing.fake_engine import FakeEngine, Fault
from llmgw.testing.gateway_process import Site, until
from llmgw.testing.gateway_room import SECRET, a_replica, a_route, a_view
from llmgw.testing.raw_http import Client

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT, TEXT, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
MESSAGES = "/v1/messages"
SLOTS = 4
CLOSED_WITHIN_S = 0.25


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[FakeEngine]:
    async with FakeEngine(model="tiny") as one:
        yield one


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory, engine) -> AsyncIterator[Site]:
    routes = [
        a_route(a_replica(name, engine.url, kind=kind, slots=SLOTS, context=4096), model=name, role=role)
        for name, kind, role in (
            ("openai", "openai", Role.CHAT),
            ("llamacpp", "llamacpp", Role.CHAT),
            ("vectors", "llamacpp", Role.EMBED),
        )
    ]
    async with Site(tmp_path_factory.mktemp("leaving"), a_view(*routes)) as one:
        await one.gateway.knows("llamacpp")
        yield one


@pytest.fixture(autouse=True)
def calm(engine):
    engine.fail(None)
    engine.tokens, engine.first_chunk_s, engine.chunk_s = 2000, 0.0, 0.01


async def begin(site: Site, path: str, model: str, *, stream: bool = False) -> Client:
    messages = [{"role": "user", "content": "x"}]
    ask = {"model": model, "stream": stream, "messages": messages, "max_tokens": 9999, "prompt": "x", "input": "x"}
    body = json.dumps(ask).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {SECRET}\r\nContent-Length: {len(body)}\r\n\r\n"
    client = await Client.connect(site.gateway.port)
    await client.send(head.encode() + body)
    return client


def go(client: Client, how: str) -> None:
    if how == "reset":
        client.reset()
    elif how == "half-close":
        client.writer.write_eof()
    else:
        client.writer.close()


def still_counted(site: Site) -> dict[tuple[str, ...], float]:
    """Give the gauges that are not zero."""
    gauges = ("llmgw_gateway_in_flight", "llmgw_gateway_queue_depth")
    return {key: value for key, value in site.control.metrics().items() if key[0] in gauges and value}


def counted(site: Site, status: str) -> float:
    return sum(v for k, v in site.control.metrics().items() if k[0] == "llmgw_gateway_requests" and k[-1] == status)


async def reported(site: Site) -> None:
    """Wait until what happened so far was reported: workers tell their master each second, and it the control plane."""
    seen = len(site.control.reports)
    await until(lambda: len(site.control.reports) >= seen + 3)


MOMENTS = [(stream, how) for stream in (False, True) for how in ("close", "reset", "half-close")]
GENERATING = [(path, model) for path in (CHAT, TEXT, MESSAGES) for model in ("openai", "llamacpp")]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("path", "model"), [*GENERATING, (EMBED, "vectors")])
async def test_before_the_first_byte(site, engine, path, model, moment):
    stream, how = moment
    engine.fail(Fault.HANG)
    began, aborted = engine.counts.started, engine.counts.aborted
    client = await begin(site, path, model, stream=stream)
    await engine.until(lambda counts: counts.started == began + 1)
    left = time.monotonic()
    go(client, how)
    await engine.until(lambda counts: counts.aborted == aborted + 1)
    assert engine.aborted_at - left < CLOSED_WITHIN_S
    client.writer.transport.abort()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("path", "model"), GENERATING)
async def test_within_the_answer(site, engine, path, model, moment):
    stream, how = moment
    aborted, chunks = engine.counts.aborted, engine.counts.chunks
    client = await begin(site, path, model, stream=stream)
    if stream:
        await client.head()
        await anext(client.chunks())
    elif model == "llamacpp":
        await engine.until(lambda counts: counts.chunks > chunks + 2)  # its plain answer is put together from a stream
    else:
        await engine.until(lambda _: engine.open_requests == 1)
    left = time.monotonic()
    go(client, how)
    await engine.until(lambda counts: counts.aborted == aborted + 1)
    assert engine.aborted_at - left < CLOSED_WITHIN_S
    client.writer.transport.abort()


async def test_within_the_queue_the_engine_never_hears_of_it(site, engine):
    began = engine.counts.started
    running = [await begin(site, CHAT, "llamacpp", stream=True) for _ in range(SLOTS)]
    await engine.until(lambda counts: counts.started == began + SLOTS)
    waiting = [await begin(site, CHAT, "llamacpp") for _ in range(6)]
    await until(lambda: still_counted(site).get(("llmgw_gateway_queue_depth", "llamacpp")) == 6)
    for client in waiting:
        client.writer.close()
    await until(lambda: ("llmgw_gateway_queue_depth", "llamacpp") not in still_counted(site))
    for client in running:
        client.writer.close()
    await reported(site)
    await until(lambda: not still_counted(site))
    assert engine.counts.started == began + SLOTS


async def test_after_200_clients_that_left_nothing_is_counted_and_all_slots_are_there(site, engine):
    dice = random.Random(7)
    engine.counts.most_at_once = 0
    kinds = [*GENERATING, (EMBED, "vectors")]
    await reported(site)
    before = counted(site, "499")

    async def one() -> None:
        path, model = dice.choice(kinds)
        if dice.random() < 0.2:
            engine.fail(Fault.HANG)
        client = await begin(site, path, model, stream=dice.random() < 0.5)
        await asyncio.sleep(dice.random() * 0.6)
        go(client, dice.choice(["close", "reset"]))

    await asyncio.gather(*(one() for _ in range(200)))
    await reported(site)
    await until(lambda: not still_counted(site) and engine.open_requests == 0)
    assert engine.counts.most_at_once <= 3 * SLOTS
    assert counted(site, "499") - before > 150  # a reset may overtake its own request, on a busy machine many do

    engine.fail(None)
    engine.tokens = 20
    for _, model in GENERATING[:2]:
        engine.counts.most_at_once = 0
        clients = [await begin(site, CHAT, model) for _ in range(4 * SLOTS)]
        assert [(await client.answer())[0] for client in clients] == [200] * (4 * SLOTS)
        assert engine.counts.most_at_once == SLOTS
        for client in clients:
            client.writer.close()
    await reported(site)
    assert not still_counted(site)
