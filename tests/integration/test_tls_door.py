"""The door over mutual TLS, as a process: gateways of its cluster get in, nobody else does."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from llmgw.link.peers import expecting
from llmgw.relay.tls import ClientTls
from llmgw.relay.upstream import Endpoint, UpstreamPool
from llmgw.schema.door import DoorShard
from llmgw.schema.identity import Part
from llmgw.testing.door_process import DoorProcess
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
        self.door = DoorProcess(self.node, more='tls = "on"\n')
        self.cluster = Cluster()
        self.engine = Engine()
        self.pools: list[UpstreamPool] = []

    def pool(self, context: ssl.SSLContext) -> UpstreamPool:
        self.pools.append(UpstreamPool(tls=ClientTls(context, expecting(Part.NODE))))
        return self.pools[-1]

    async def ask(self, pool: UpstreamPool, **options):
        return await pool.request(
            Endpoint.from_url(self.door.address, peer="n1"),
            method="POST",
            path="/shards/r1.0/v1/completions",
            headers=(),
            body=b"{}",
            first_byte_timeout_s=DEADLINE_S,
            **options,
        )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory) -> AsyncIterator[Place]:
    place = Place(tmp_path_factory.mktemp("tls"))
    place.cluster.join(place.node, Part.NODE, "n1")
    await place.engine.upstream.start()
    try:
        await place.door.start()
        assert place.door.address.startswith("https://127.0.0.1:")
        url = f"http://127.0.0.1:{place.engine.upstream.port}"
        await place.door.tell(DoorShard(id="r1.0", model="m", endpoint=url, key="k", paths=("/v1/completions",)))
        yield place
    finally:
        for pool in place.pools:
            pool.close()
        await place.door.stop()
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
    asked, seen = place.engine.asked, len(place.door.logged("tls.peer_refused"))
    stranger = place.pool(place.cluster.join(tmp_path, part, "x").dialling())
    with contextlib.suppress(Exception):
        await place.ask(stranger)

    await until(lambda: len(place.door.logged("tls.peer_refused")) > seen)
    assert place.door.logged("tls.peer_refused")[-1]["reason"] == f"it is {part} x; only a gateway is let in here"
    assert place.engine.asked == asked


async def test_a_foreign_certificate_and_none_at_all_are_refused_and_logged(place, tmp_path):
    foreign = Cluster().join(tmp_path, Part.GATEWAY, "g1", trusts=place.cluster).dialling()
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    asked = place.engine.asked
    for context in (foreign, bare):
        seen = len(place.door.logged("tls.refused"))
        with contextlib.suppress(Exception):
            await place.ask(place.pool(context))
        await until(lambda seen=seen: len(place.door.logged("tls.refused")) > seen)

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
    renewals = len(place.door.logged("tls.renewed"))
    place.cluster.join(place.node, Part.NODE, "n1")
    await until(lambda: len(place.door.logged("tls.renewed")) > renewals)
    second = await place.ask(pool)

    assert serial(second) != before
    place.engine.go.set()
    assert [piece async for piece in pieces] == [b"two"]
    assert await second.read(100) == b"onetwo"
