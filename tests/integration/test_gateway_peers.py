"""Two gateways of one cluster over mutual TLS: each counts the other's requests, until it is gone."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import msgspec
import openai
import pytest
import pytest_asyncio

from llmgw.schema.identity import Part
from llmgw.schema.view import Peer, PeersSection
from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.gateway_process import Site, free_port, until
from llmgw.testing.gateway_room import a_replica, a_route, a_view
from llmgw.testing.identities import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAMS = 6


async def begun(client: openai.AsyncOpenAI, model: str, text: str) -> openai.AsyncStream:
    """Ask for a stream that does not end by itself, and wait for its beginning."""
    stream = await client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": text}], stream=True
    )
    await anext(stream)
    return stream


class Two:
    """Gateways g1 and g2, and the engines both of them know."""

    def __init__(self, first: Site, second: Site, one: FakeEngine, other: FakeEngine) -> None:
        self.first, self.second = first, second
        self.client = second.gateway.client()
        self.one, self.other = one, other

    async def chosen(self, text: str) -> FakeEngine:
        """Let g2 choose, and say whom it chose."""
        before = len(self.one.requests)
        async with await begun(self.client, "both", text):
            pass
        return self.one if len(self.one.requests) > before else self.other

    async def a_text_for(self, engine: FakeEngine) -> str:
        """Find what g2 puts to `engine` where both are equal: the text decides then, the same way each time."""
        for number in range(100):
            if await self.chosen(f"text {number}") is engine:
                return f"text {number}"
        raise AssertionError("all texts go to one engine")

    async def chooses(self, engine: FakeEngine, text: str) -> None:
        """Wait until g2 chooses `engine`."""
        async with asyncio.timeout(20):
            while await self.chosen(text) is not engine:  # noqa: ASYNC110 (what is waited for lies in other processes)
                await asyncio.sleep(0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two(tmp_path_factory) -> AsyncIterator[Two]:
    folder = tmp_path_factory.mktemp("peers")
    cluster = Cluster()
    hung = socket.create_server(("127.0.0.1", 0))
    ports = {"g1": free_port(), "g2": free_port()}
    peers = [Peer(name=name, address=f"127.0.0.1:{port}") for name, port in ports.items()]
    peers.append(Peer(name="g3", address=f"127.0.0.1:{hung.getsockname()[1]}"))  # it never answers
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(hung.close)
        one, other = [await stack.enter_async_context(FakeEngine(model="tiny")) for _ in range(2)]
        for engine in (one, other):
            engine.tokens, engine.chunk_s = 2000, 0.05
        replicas = (a_replica("r1", one.url), a_replica("r2", other.url))
        alone = (a_route(replicas[0], model="one"), a_route(replicas[1], model="other"))
        view = a_view(a_route(*replicas, model="both"), *alone)
        view = msgspec.structs.replace(view, peers=PeersSection(version=1, peers=tuple(peers)))
        sites = []
        for name, port in ports.items():
            identity = cluster.join(folder / name / "gateway", Part.GATEWAY, name)
            more = f'tls = "on"\nname = "{name}"\npeer_listen = "127.0.0.1:{port}"\n'
            site = Site(folder / name, view, workers=1, more=more, trust=identity.authority_file)
            sites.append(await stack.enter_async_context(site))
            await site.gateway.knows("both")
        two = Two(*sites, one, other)
        async with two.client:
            yield two


async def test_what_one_gateway_put_to_a_replica_the_other_puts_there_too(two):
    for engine in (two.one, two.other):
        engine.tokens = 3
    texts = [f"conversation {number}: " + "what was said before " * 100 for number in range(8)]
    async with two.first.gateway.client() as theirs:
        for text in texts:
            async with await begun(theirs, "other", text):
                pass
    for text in texts:
        await two.chooses(two.other, text)
        assert await two.chosen(text + "and then") is two.other
    for engine in (two.one, two.other):
        engine.tokens = 2000


@pytest.mark.slow
async def test_least_work_counts_all_gateways_and_a_dead_one_no_longer(two):
    assert two.second.control.hellos[0].peer is not None
    text = await two.a_text_for(two.one)
    async with two.first.gateway.client() as theirs:
        taken = [await begun(theirs, "one", "x") for _ in range(STREAMS)]
        await two.chooses(two.other, text)

        # Of ours the other engine has three now, of theirs this one six: it is chosen once those are forgotten.
        taken += [await begun(two.client, "other", "x") for _ in range(3)]
        await two.chooses(two.other, text)
        two.first.gateway.workers()
        two.first.gateway.process.kill()
        for worker in two.first.gateway.seen.values():
            worker.kill()
        await two.chooses(two.one, text)
        for stream in taken:
            await stream.close()
    await until(lambda: two.second.control.metrics().get(("llmgw_gateway_peers", "silent")) == 2)
    await until(lambda: "peer.lost" in two.second.gateway.log.read_text())
