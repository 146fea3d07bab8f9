"""A gateway with TLS on all sides: clients, a node's door. Real processes, identities of one cluster."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import openai
import pytest
import pytest_asyncio

from llmgw.schema.door import DoorShard
from llmgw.schema.identity import Part
from llmgw.testing.door_process import DoorProcess
from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.gateway_process import Site, until
from llmgw.testing.gateway_room import a_replica, a_route, a_view
from llmgw.testing.identities import Cluster
from llmgw.testing.raw_http import Line, Upstream

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASK = [{"role": "user", "content": "hi"}]
KEY = "le_known-to-the-door-only"
CLOSED_WITHIN_S = 5.0
"""The figure is 0.25 s; this is about being noticed at all, on a busy machine."""


class Clinging:
    """An engine that lets go of a client that left only when told."""

    def __init__(self) -> None:
        self.started = 0
        self.go = asyncio.Event()
        self.upstream = Upstream(self._serve)

    async def _serve(self, line: Line) -> None:
        await line.request()
        self.started += 1
        await line.peer_left()
        await self.go.wait()


class Place:
    """A cluster of a node with two engines behind its door, and a gateway elsewhere."""

    def __init__(self, folder: Path, engine: FakeEngine) -> None:
        self.folder = folder
        self.engine = engine
        self.clinging = Clinging()
        self.cluster = Cluster()
        self.door = DoorProcess(folder / "node", more='tls = "on"\n')
        self.cluster.join(folder / "node", Part.NODE, "n1")
        self.gateway_folder = folder / "site" / "gateway"
        self.identity = self.cluster.join(self.gateway_folder, Part.GATEWAY, "g1")
        self.site: Site

    def shards(self) -> list[DoorShard]:
        urls = {"near": self.engine.url, "slow": f"http://127.0.0.1:{self.clinging.upstream.port}"}
        paths = ("/v1/chat/completions",)
        return [DoorShard(id=f"{name}.0", model="m", endpoint=url, key=KEY, paths=paths) for name, url in urls.items()]

    def far(self, name: str, *, node: str = "n1", slots: int = 4):
        # Nobody listens at the endpoint as seen from here, and the gateway is not told the key.
        there = a_replica(name, "http://127.0.0.1:9", kind="llamacpp", context=4096, slots=slots)
        return msgspec.structs.replace(there, place="another-boot:1", door=self.door.address, node=node)

    def view(self):
        return a_view(
            a_route(self.far("near")),
            a_route(self.far("slow", slots=1), model="slow"),
            a_route(self.far("near", node="n2"), model="swapped"),
        )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory) -> AsyncIterator[Place]:
    async with FakeEngine(model="tiny", key=KEY) as engine:
        place = Place(tmp_path_factory.mktemp("tls"), engine)
        await place.clinging.upstream.start()
        try:
            await place.door.start()
            await place.door.tell(*place.shards())
            more = 'tls = "on"\nname = "g1"\n'
            trust = place.identity.authority_file
            async with Site(place.folder / "site", place.view(), workers=1, more=more, trust=trust) as place.site:
                await place.site.gateway.knows("slow")
                yield place
        finally:
            await place.door.stop()
            await place.clinging.upstream.stop()


@pytest.fixture(autouse=True)
def _calm(place) -> None:
    place.engine.fail(None)
    place.engine.tokens, place.engine.chunk_s = 8, 0.0


async def test_answers_and_streams_come_through_both_ways_of_tls(place):
    async with place.site.gateway.client() as client:
        plain = await client.chat.completions.create(model="tiny", messages=ASK, max_tokens=3)
        assert plain.choices[0].message.content == " 1 2 3"
        stream = await client.chat.completions.create(model="tiny", messages=ASK, stream=True)
        text = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(text) == " 1 2 3 4 5 6 7 8"
    assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in place.engine.requests)


async def test_a_client_without_tls_is_not_served(place):
    answer = b""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", place.site.gateway.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert b"HTTP" not in answer


async def test_nothing_is_sent_to_a_node_that_is_not_the_one_of_the_view(place):
    seen = len(place.engine.requests)
    async with place.site.gateway.client() as client:
        with pytest.raises(openai.APIStatusError):
            await client.chat.completions.create(model="swapped", messages=ASK)
    assert len(place.engine.requests) == seen
    assert "it is node n1, not node n2" in place.site.gateway.log.read_text()


async def test_a_client_that_leaves_is_noticed_by_the_engine(place):
    place.engine.tokens, place.engine.chunk_s = 2000, 0.01
    async with place.site.gateway.client() as client:
        stream = await client.chat.completions.create(model="tiny", messages=ASK, stream=True)
        await anext(aiter(stream))
        aborted, left = place.engine.counts.aborted, time.monotonic()
        await stream.close()
    await place.engine.until(lambda counts: counts.aborted == aborted + 1)
    assert place.engine.aborted_at - left < CLOSED_WITHIN_S


async def test_a_slot_behind_the_door_is_busy_until_its_engine_let_go(place):
    async with place.site.gateway.client() as client:
        asking = asyncio.ensure_future(client.chat.completions.create(model="slow", messages=ASK))
        await until(lambda: place.clinging.started == 1)
        asking.cancel()
        await asyncio.wait_for(place.clinging.upstream.left.wait(), CLOSED_WITHIN_S)
        second = asyncio.ensure_future(client.chat.completions.create(model="slow", messages=ASK))
        await until(lambda: place.site.control.metrics().get(("llmgw_gateway_queue_depth", "slow")) == 1)
        assert place.clinging.started == 1
        place.clinging.go.set()
        await until(lambda: place.clinging.started == 2)
        second.cancel()
    await until(lambda: place.site.control.metrics().get(("llmgw_gateway_in_flight", "slow")) == 0)


async def test_certificates_are_renewed_without_a_stream_that_breaks(place):
    async def shown() -> str:
        context = ssl.create_default_context(cafile=str(place.identity.authority_file))
        _, writer = await asyncio.open_connection("127.0.0.1", place.site.gateway.port, ssl=context)
        serial = writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
        writer.close()
        return serial

    place.engine.tokens, place.engine.chunk_s = 10_000, 0.01
    before = await shown()
    async with place.site.gateway.client() as client:
        stream = aiter(await client.chat.completions.create(model="tiny", messages=ASK, stream=True))
        await anext(stream)
        renewals = len(place.door.logged("tls.renewed"))
        place.cluster.join(place.gateway_folder, Part.GATEWAY, "g1")
        place.cluster.join(place.door.data_dir, Part.NODE, "n1")
        async with asyncio.timeout(20):
            while await shown() == before or len(place.door.logged("tls.renewed")) == renewals:
                await anext(stream)
        for _ in range(20):
            await anext(stream)
        place.engine.tokens = 8
        await client.chat.completions.create(model="tiny", messages=ASK)


async def test_a_gateway_that_goes_by_another_name_than_it_joined_by_does_not_start(place, tmp_path):
    place.cluster.join(tmp_path / "gateway", Part.GATEWAY, "g7")
    site = Site(tmp_path, a_view(), more='tls = "on"\nname = "g1"\n', trust=place.identity.authority_file)
    with pytest.raises(RuntimeError, match="joined by the name 'g7', not 'g1'"):
        async with site:
            pass
    await site.gateway.end()
    await site.control.stop()
