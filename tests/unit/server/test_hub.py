import asyncio
import contextlib
from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import replace

from llmgw.link.frames import pack, read_frame
from llmgw.ports import FleetRows
from llmgw.schema.demand import DemandReport, ModelDemand
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.identity import Identity, Part
from llmgw.schema.join import Declined, Joined
from llmgw.schema.key import ApiKey
from llmgw.schema.link import (
    ControlMessage,
    GatewayHello,
    GatewayReport,
    Ping,
    RenewCertificate,
    Renewed,
    ViewDelta,
    ViewSnapshot,
)
from llmgw.schema.model import Model, Role
from llmgw.schema.plan import Allocation
from llmgw.schema.replica import Replica, ReplicaState, Shard
from llmgw.schema.view import Peer
from llmgw.server import hub as module
from llmgw.server.changes import Changes
from llmgw.server.demand import DemandBoard
from llmgw.server.hub import Hub
from llmgw.server.listen import bind_unix
from llmgw.server.live import LiveNodes
from llmgw.testing.clock import FakeClock
from llmgw.testing.guard_policies import policy, rule

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CHAT = Model(name="chat", source="/m.gguf", created_at=NOW)
EMBED = replace(CHAT, name="embed")
SHARD = Shard(id="r1.0", rank=0, allocation=Allocation(node="n1"), key="k", endpoint="http://127.0.0.1:1")
READY = Replica(
    id="r1", model="chat", revision=1, state=ReplicaState.READY, shards=(SHARD,), created_at=NOW, state_since=NOW
)
KEY = ApiKey(id="lk_1", hash="h", name="n", created_at=NOW)


class FleetStub:
    def __init__(self):
        self.changes = Changes()
        self.loaded = False
        self.rows = FleetRows()
        self.api_keys = ()
        self.hash_key = b""
        self.policies = ()
        self.aliases = ()

    def set(self, **values):
        for name, value in values.items():
            setattr(self, name, value)
        self.changes.notify()


class Directory:
    """The gateways of all control planes, as this one knows them."""

    def __init__(self):
        self.changes = Changes()
        self.known = ()

    def peers(self):
        return self.known


class Bench:
    def __init__(self, path):
        self.path = path
        self.renewed = {}
        self.directory = Directory()
        self.fleet = FleetStub()
        self.board = DemandBoard(FakeClock())
        self.hub = Hub(
            source="us",
            fleet=self.fleet,
            live=LiveNodes(),
            board=self.board,
            clock=FakeClock(),
            directory=self.directory,
            renew=self.renew,
        )

    async def renew(self, request, holder):
        return self.renewed.get(holder.identity, Declined(reason=f"{holder.identity} is not known here"))

    @contextlib.asynccontextmanager
    async def gateway(self, name="g1", peer=None):
        reader, writer = await asyncio.open_unix_connection(str(self.path))
        try:
            writer.write(pack(GatewayHello(gateway=name, version="1", pid=7, peer=peer)))
            yield Gateway(reader, writer)
        finally:
            writer.close()


class Gateway:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def read(self, seconds=5.0):
        async with asyncio.timeout(seconds):
            frame = await read_frame(self.reader)
        return None if frame is None else msgspec.json.decode(frame, type=ControlMessage)

    async def silent(self, seconds=0.1):
        with pytest.raises(TimeoutError):
            await self.read(seconds)


@pytest.fixture
async def bench(tmp_path):
    bench = Bench(tmp_path / "hub.sock")
    await bench.hub.start(bind_unix(bench.path, field="gateway_socket"))
    task = asyncio.ensure_future(bench.hub.run())
    yield bench
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await bench.hub.stop()


LOADED = {"loaded": True, "rows": FleetRows(models=(CHAT,), replicas=(READY,))}


async def test_a_gateway_gets_the_whole_view_first(bench):
    bench.fleet.set(**LOADED, api_keys=(KEY,), hash_key=b"\x01")
    async with bench.gateway() as gateway:
        message = await gateway.read()
    assert isinstance(message, ViewSnapshot)
    assert message.view.source == "us"
    assert [route.replicas[0].id for route in message.view.routes.routes] == ["r1"]
    assert message.view.keys.hash_key == "01"
    assert [key.id for key in message.view.keys.keys] == ["lk_1"]


async def test_nothing_is_sent_before_the_rows_are_read(bench):
    async with bench.gateway() as gateway:
        await gateway.silent()
        bench.fleet.set(**LOADED)
        assert isinstance(await gateway.read(), ViewSnapshot)


async def test_without_a_hash_key_there_is_no_section_of_keys(bench):
    bench.fleet.set(**LOADED)
    async with bench.gateway() as gateway:
        assert (await gateway.read()).view.keys is None
        bench.fleet.set(hash_key=b"\x01", api_keys=(KEY,))
        delta = await gateway.read()
    assert delta.routes is None
    assert [key.id for key in delta.view.keys.keys] == ["lk_1"]


async def test_policies_are_sent_whole_with_the_judges_they_ask_when_they_changed(bench):
    bench.fleet.set(**LOADED)
    async with bench.gateway() as gateway:
        first = (await gateway.read()).view.policies
        assert (first.version, first.policies) == (1, ()), "none is known to be none"
        asked = policy("p", rule(judge="guard"))
        bench.fleet.set(policies=(asked,))
        delta = await gateway.read()
        assert (delta.view.policies.version, delta.view.policies.policies) == (2, (asked,))
        assert delta.view.policies.judges == ()
        judge = Model(name="guard", source="/w/Llama-Guard-3-1B.gguf", role=Role.GUARD, created_at=NOW)
        bench.fleet.set(rows=FleetRows(models=(CHAT, judge), replicas=(READY,)))
        delta = await gateway.read()
    assert delta.view.keys is None
    (entry,) = delta.view.policies.judges
    assert (entry.model, entry.family, delta.view.policies.version) == ("guard", JudgeFamily.LLAMA_GUARD_3_1B, 3)


async def test_a_change_arrives_as_a_delta_within_fifty_milliseconds(bench):
    bench.fleet.set(**LOADED)
    async with bench.gateway() as gateway:
        first = await gateway.read()
        loop = asyncio.get_running_loop()
        sent = loop.time()
        bench.fleet.set(rows=FleetRows(models=(CHAT, EMBED), replicas=(READY,)))
        delta = await gateway.read()
        assert loop.time() - sent < 0.05
    assert isinstance(delta, ViewDelta)
    assert delta.view is None
    assert (delta.routes.base, delta.routes.version) == (first.view.routes.version, first.view.routes.version + 1)
    assert [route.model for route in delta.routes.changed] == ["embed"]


async def test_deltas_follow_on_each_other_and_name_what_went(bench):
    bench.fleet.set(**LOADED)
    async with bench.gateway() as gateway:
        version = (await gateway.read()).view.routes.version
        for rows in (FleetRows(models=(CHAT, EMBED)), FleetRows(models=(EMBED,)), FleetRows()):
            bench.fleet.set(rows=rows)
            delta = await gateway.read()
            assert delta.routes.base == version
            version = delta.routes.version
        assert delta.routes.removed == ("embed",)


async def test_a_change_of_nothing_a_gateway_knows_sends_nothing(bench):
    bench.fleet.set(**LOADED)
    async with bench.gateway() as gateway:
        await gateway.read()
        bench.fleet.set(rows=replace(LOADED["rows"], replicas=(replace(READY, restart_count=3),)))
        await gateway.silent()


async def test_each_gateway_that_comes_back_gets_the_whole_view_again(bench):
    bench.fleet.set(**LOADED)
    for _ in range(2):
        async with bench.gateway() as gateway:
            assert isinstance(await gateway.read(), ViewSnapshot)


async def test_demand_is_taken_in_and_the_gateway_is_known_while_it_is_connected(bench):
    demand = ModelDemand(held=1, in_flight=0, arrivals=1)
    async with bench.gateway("g1") as gateway:
        report = DemandReport(gateway="g1", seq=1, models={"chat": demand})
        gateway.writer.write(pack(GatewayReport(report=report)))
        await _until(lambda: bench.board.by_model() == {"chat": [("g1", demand)]})
        assert [known.name for known in bench.board.gateways()] == ["g1"]
    await _until(lambda: bench.board.gateways() == ())


async def test_signs_of_life_are_sent_when_there_is_nothing_else(bench, monkeypatch):
    monkeypatch.setattr(module, "PING_S", 0.02)
    async with bench.gateway() as gateway:
        assert isinstance(await gateway.read(), Ping)


@pytest.mark.parametrize("frame", [b"\x00\x00\x00\x02{}", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"])
async def test_noise_ends_its_own_stream_only(bench, frame):
    bench.fleet.set(**LOADED)
    reader, writer = await asyncio.open_unix_connection(str(bench.path))
    writer.write(frame)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    async with bench.gateway() as gateway:
        assert isinstance(await gateway.read(), ViewSnapshot)


async def test_stopping_ends_all_streams(bench):
    async with bench.gateway() as gateway:
        await _until(bench.board.gateways)
        await bench.hub.stop()
        assert await gateway.read() is None


async def _until(true):
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 - what is waited for is state of the code under test, which tells nobody
            await asyncio.sleep(0.001)


async def test_gateways_are_told_of_each_other_and_those_that_can_be_reached_are_known_while_connected(bench):
    bench.fleet.set(loaded=True, rows=FleetRows(models=(CHAT,)))
    async with bench.gateway("g1", peer="10.0.0.1:8004") as gateway, bench.gateway("g2") as silent:
        assert (await gateway.read()).view.peers is None
        await silent.read()
        assert bench.hub.reachable() == (Peer(name="g1", address="10.0.0.1:8004"),)
        bench.directory.known = (Peer(name="g1", address="10.0.0.1:8004"), Peer(name="g3", address="10.0.0.3:8004"))
        bench.directory.changes.notify()
        delta = await gateway.read()
        assert delta.routes is None
        assert (delta.view.peers.version, delta.view.peers.peers) == (1, bench.directory.known)
        assert delta.view.keys is None
    async with asyncio.timeout(5):
        while bench.hub.reachable():  # noqa: ASYNC110 - the hub notices by itself
            await asyncio.sleep(0.01)


async def test_a_gateway_of_this_machine_gets_a_new_certificate_in_its_own_name(bench):
    bench.renewed[Identity(part=Part.GATEWAY, name="g1")] = Joined(certificate="new")
    for name, answer in (("g1", Renewed(certificate="new")), ("g2", Renewed(reason="gateway g2 is not known here"))):
        async with bench.gateway(name) as gateway:
            gateway.writer.write(pack(RenewCertificate(request="csr")))
            assert await gateway.read() == answer


async def test_a_stranger_is_not_waited_for_with_a_large_first_message(bench):
    reader, writer = await asyncio.open_unix_connection(str(bench.path))
    writer.write((module.MAX_HELLO + 1).to_bytes(4, "big") + b"{")
    async with asyncio.timeout(5):
        assert await reader.read() == b""
    writer.close()
