"""A gateway in another place than the engine: it asks through the node's door, and nothing changes for the client."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator

import msgspec
import openai
import pytest
import pytest_asyncio

from llmgw.link import frames
from llmgw.schema.door import DoorShard, DoorUpdate
from llmgw.schema.model import Role
from llmgw.testing.fake_engine import FakeEngine, Fault
from llmgw.testing.gateway_process import Site, until
from llmgw.testing.gateway_room import a_replica, a_route, a_view
from llmgw.testing.raw_http import Line, Upstream

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASK = [{"role": "user", "content": "hi"}]
KEY = "le_known-to-the-door-only"
PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")


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
    def __init__(self, site: Site, engine: FakeEngine, clinging: Clinging) -> None:
        self.site, self.engine, self.clinging = site, engine, clinging


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory) -> AsyncIterator[Place]:
    folder = tmp_path_factory.mktemp("far")
    config = folder / "door.toml"
    config.write_text(f'data_dir = "{folder}"\nlisten = "127.0.0.1:0"\nlog_format = "json"\n')
    clinging = Clinging()
    await clinging.upstream.start()
    async with FakeEngine(model="tiny", key=KEY) as engine:
        door = await asyncio.create_subprocess_exec(sys.executable, "-m", "llmgw", "door", "--config", str(config))
        try:
            await until((folder / "door.json").exists)
            address = json.loads((folder / "door.json").read_text())["listen"]
            urls = {"near": engine.url, "slow": f"http://127.0.0.1:{clinging.upstream.port}"}
            shards = [
                DoorShard(id=f"{name}.0", model="m", endpoint=url, key=KEY, paths=PATHS) for name, url in urls.items()
            ]
            _, writer = await asyncio.open_unix_connection(folder / "door.sock")
            writer.write(frames.pack(DoorUpdate(shards=tuple(shards), readings=())))
            await writer.drain()
            writer.close()

            def far(name: str, **options):
                # Nobody listens at the endpoint as seen from here, and the gateway is not told the key.
                there = a_replica(name, "http://127.0.0.1:9", kind="llamacpp", context=4096, **options)
                return msgspec.structs.replace(there, place="another-boot:1", door=address)

            view = a_view(
                a_route(far("near", slots=4)),
                a_route(far("near", slots=4), model="vectors", role=Role.EMBED),
                a_route(far("slow", slots=1), model="slow"),
            )
            async with Site(folder, view, workers=1) as site:
                await site.gateway.knows("slow")
                yield Place(site, engine, clinging)
        finally:
            door.kill()
            await door.wait()
            await clinging.upstream.stop()


@pytest.fixture(autouse=True)
def _calm(place) -> None:
    """Each test begins with an engine as it was made, whatever came before."""
    place.engine.fail(None)
    place.engine.tokens = 8
    place.engine.chunk_s = 0.0


async def test_every_route_is_served(place):
    async with place.site.gateway.client() as client:
        plain = await client.chat.completions.create(model="tiny", messages=ASK, max_tokens=3)
        assert (plain.choices[0].message.content, plain.usage.completion_tokens) == (" 1 2 3", 3)
        stream = await client.chat.completions.create(model="tiny", messages=ASK, stream=True)
        text = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(text) == " 1 2 3 4 5 6 7 8"
        whole = await client.completions.create(model="tiny", prompt="x", max_tokens=2)
        assert whole.choices[0].text == " 1 2"
        assert len((await client.embeddings.create(model="vectors", input=["a", "b"])).data) == 2
    assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in place.engine.requests)


async def test_an_engines_error_is_handed_on_and_a_cut_stream_is_told(place):
    async with place.site.gateway.client() as client:
        place.engine.fail(Fault.STATUS, arg=500)
        with pytest.raises(openai.InternalServerError, match="ordered fault 500"):
            await client.chat.completions.create(model="tiny", messages=ASK)
        place.engine.fail(Fault.DIE, arg=4)
        stream = await client.chat.completions.create(model="tiny", messages=ASK, stream=True)
        with pytest.raises(openai.APIError, match="before its answer was complete"):
            async for _ in stream:
                pass


async def test_a_client_that_leaves_is_noticed_by_the_engine(place):
    place.engine.tokens, place.engine.chunk_s = 2000, 0.01
    async with place.site.gateway.client() as client:
        stream = await client.chat.completions.create(model="tiny", messages=ASK, stream=True)
        await anext(aiter(stream))
        aborted, left = place.engine.counts.aborted, time.monotonic()
        await stream.close()
    await place.engine.until(lambda counts: counts.aborted == aborted + 1)
    assert place.engine.aborted_at - left < 0.25


async def test_a_slot_behind_the_door_is_busy_until_its_engine_let_go(place):
    async with place.site.gateway.client() as client:
        asking = asyncio.ensure_future(client.chat.completions.create(model="slow", messages=ASK))
        await until(lambda: place.clinging.started == 1)
        asking.cancel()
        await asyncio.wait_for(place.clinging.upstream.left.wait(), 0.25)
        second = asyncio.ensure_future(client.chat.completions.create(model="slow", messages=ASK))
        await until(lambda: place.site.control.metrics().get(("llmgw_gateway_queue_depth", "slow")) == 1)
        assert place.clinging.started == 1
        place.clinging.go.set()
        await until(lambda: place.clinging.started == 2)
        second.cancel()
    await until(lambda: place.site.control.metrics().get(("llmgw_gateway_in_flight", "slow")) == 0)
