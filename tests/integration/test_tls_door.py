"""The door over mutual TLS, as a process: gateways of its cluster get in, nobody else does."""

import asyncio
import contextlib
import json
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from llmgw.link import frames
from llmgw.link.peers import expecting
from llmgw.relay.tls import ClientTls
from llmgw.relay.upstream import Endpoint, UpstreamPool
from llmgw.schema.door import DoorShard, DoorUpdate
from llmgw.schema.identity import Part
from llmgw.testing.gateway_process import until
from llmgw.testing.identities import Cluster
from llmgw.testing.raw_http import Upstream

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEADLINE_S = 20
CLOSED_WITHIN_S = 5
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Engine:
    """Answers half, and the rest when told; lets go of a client that left when told."""

    def __init__(self) -> None:
        self.go, self.let_go = asyncio.Event(), asyncio.Event()
        self.asked = 0
        self.upstream = Upstream(self._serve)

    async def _serve(self, line) -> None:
        while True:
            await line.request()
            self.asked += 1
            line.write(CHUNKED + b"3\r\none\r\n")
            leaving = asyncio.ensure_future(line.peer_left())
            going = asyncio.ensure_future(self.go.wait())
            done, _ = await asyncio.wait({leaving, going}, return_when=asyncio.FIRST_COMPLETED)
            if leaving in done:
                going.cancel()
                await self.let_go.wait()
                return
            leaving.cancel()
            line.write(b"3\r\ntwo\r\n0\r\n\r\n")


class Place:
    """A node's door and its engine, and the cluster it belongs to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.node = folder / "node"
        self.cluster = Cluster()
        self.engine = Engine()
        self.port = 0
        self.pools: list[UpstreamPool] = []

    def log(self, event: str) -> list[dict[str, str]]:
        lines = [json.loads(line) for line in (self.folder / "door.log").read_text().splitlines() if line[0] == "{"]
        return [line for line in lines if line["event"] == event]

    def pool(self, context: ssl.SSLContext) -> UpstreamPool:
        self.pools.append(UpstreamPool(tls=ClientTls(context, expecting(Part.NODE))))
        return self.pools[-1]

    async def ask(self, pool: UpstreamPool, **options):
        return await pool.request(
            Endpoint("127.0.0.1", self.port, "n1"),
            method="POST",
            path="/shards/r1.0/v1/completions",
            headers=(),
            body=b"{}",
            first_byte_timeout_s=DEADLINE_S,
            **options,
        )

    async def tell(self) -> None:
        """Be the agent: hand in the engine and go."""
        shard = DoorShard(
            id="r1.0",
            model="m",
            endpoint=f"http://127.0.0.1:{self.engine.upstream.port}",
            key="k",
            paths=("/v1/completions",),
        )
        _, writer = await asyncio.open_unix_connection(self.node / "door.sock")
        writer.write(frames.pack(DoorUpdate(shards=(shard,))))
        await writer.drain()
        writer.close()
        await until(lambda: self.log("door.shards"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory) -> AsyncIterator[Place]:
    place = Place(tmp_path_factory.mktemp("tls"))
    place.cluster.join(place.node, Part.NODE, "n1")
    config = place.folder / "door.toml"
    config.write_text(f'data_dir = "{place.node}"\nlisten = "127.0.0.1:0"\nlog_format = "json"\ntls = "on"\n')
    await place.engine.upstream.start()
    with (place.folder / "door.log").open("w") as log:
        door = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "llmgw", "door", "--config", str(config), stderr=log
        )
    try:
        await until((place.node / "door.json").exists)
        told = json.loads((place.node / "door.json").read_text())["listen"]
        assert told.startswith("https://127.0.0.1:")
        place.port = int(told.rpartition(":")[2])
        await place.tell()
        yield place
    finally:
        for pool in place.pools:
            pool.close()
        door.kill()
        await door.wait()
        await place.engine.upstream.stop()


@pytest.fixture
def gateway(place):
    return place.cluster.join(place.folder / "gateway", Part.GATEWAY, "g1")


@pytest.fixture(autouse=True)
def _calm(place) -> None:
    place.engine.go.clear()
    place.engine.let_go.clear()


@pytest.mark.parametrize("part", [Part.NODE, Part.SERVER])
async def test_other_parts_are_refused_and_logged(place, tmp_path, part):
    asked, seen = place.engine.asked, len(place.log("tls.peer_refused"))
    stranger = place.pool(place.cluster.join(tmp_path, part, "x").dialling())
    with contextlib.suppress(Exception):
        await place.ask(stranger)

    await until(lambda: len(place.log("tls.peer_refused")) > seen)
    assert place.log("tls.peer_refused")[-1]["reason"] == f"it is {part} x; only a gateway is let in here"
    assert place.engine.asked == asked


async def test_a_foreign_certificate_and_none_at_all_are_refused_and_logged(place, tmp_path):
    foreign = Cluster().join(tmp_path, Part.GATEWAY, "g1", trusts=place.cluster).dialling()
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    asked = place.engine.asked
    for context in (foreign, bare):
        seen = len(place.log("tls.refused"))
        with contextlib.suppress(Exception):
            await place.ask(place.pool(context))
        await until(lambda seen=seen: len(place.log("tls.refused")) > seen)

    assert place.engine.asked == asked


async def test_a_caller_that_leaves_closes_the_engine_at_once_and_hears_when_it_let_go(place, gateway):
    place.engine.upstream.left.clear()
    pool = place.pool(gateway.dialling())
    response = await place.ask(pool, linger_s=120)
    assert await anext(response.chunks()) == b"one"
    response.close()
    waiting = asyncio.ensure_future(response.left())

    await asyncio.wait_for(place.engine.upstream.left.wait(), CLOSED_WITHIN_S)
    await asyncio.sleep(0.05)
    assert not waiting.done()
    place.engine.let_go.set()
    await asyncio.wait_for(waiting, DEADLINE_S)


async def test_a_renewed_certificate_is_shown_without_a_stream_that_breaks(place, gateway):
    def serial(response) -> str:
        return response._carrier.transport.get_extra_info("ssl_object").getpeercert()["serialNumber"]

    pool = place.pool(gateway.dialling())
    running = await place.ask(pool)
    pieces = running.chunks()
    assert await anext(pieces) == b"one"
    before = serial(running)
    renewals = len(place.log("tls.renewed"))
    place.cluster.join(place.node, Part.NODE, "n1")
    await until(lambda: len(place.log("tls.renewed")) > renewals)
    second = await place.ask(pool)

    assert serial(second) != before
    place.engine.go.set()
    assert [piece async for piece in pieces] == [b"two"]
    assert await second.read(100) == b"onetwo"
