"""The hub over mutual TLS, dialled by gateways' own end of the stream."""

import asyncio
import contextlib

import pytest
from structlog.testing import capture_logs

from llmgw.gateway.control_line import TlsLine
from llmgw.gateway.control_link import ControlLink
from llmgw.link.peers import admitting
from llmgw.ports import FleetRows
from llmgw.schema.demand import DemandReport
from llmgw.schema.identity import Part
from llmgw.schema.link import GatewayHello, GatewayReport, ViewSnapshot
from llmgw.server.changes import Changes
from llmgw.server.demand import DemandBoard
from llmgw.server.gateway_gate import GatewayGate
from llmgw.server.hub import Hub
from llmgw.server.listen import bind_tcp
from llmgw.server.live import LiveNodes
from llmgw.testing.clock import FakeClock
from llmgw.testing.gateway_room import until
from llmgw.testing.identities import Cluster


class Fleet:
    def __init__(self):
        self.changes = Changes()
        self.loaded = True
        self.rows = FleetRows()
        self.api_keys = ()
        self.policies = ()
        self.aliases = ()
        self.hash_key = b""


class Bench:
    """A hub that listens over TLS, and what it says of certificates."""

    def __init__(self, folder):
        self.folder = folder
        self.cluster = Cluster()
        self.fleet = Fleet()
        self.board = DemandBoard(FakeClock())
        self.hub = Hub(source="us", fleet=self.fleet, live=LiveNodes(), board=self.board, clock=FakeClock())
        self.removed: set[str] = set()
        self.sock = bind_tcp("127.0.0.1:0", field="gateway_listen")

    def judge(self, holder):
        return f"{holder.identity} was removed" if holder.identity.name in self.removed else None

    async def start(self):
        own = self.cluster.join(self.folder / "server", Part.SERVER, "c1")
        await self.hub.start_tls(self.sock, GatewayGate(own.listening(), self.judge))

    @contextlib.asynccontextmanager
    async def gateway(self, identity, *, name="g1", takes=(Part.SERVER,)):
        got = []
        line = TlsLine(f"127.0.0.1:{self.sock.getsockname()[1]}", identity.dialling(), admitting(*takes))
        hello = GatewayHello(gateway=name, version="1", pid=1, peer=f"{name}:8805")
        link = ControlLink([line], hello, got.append)
        running = asyncio.ensure_future(link.run())
        try:
            yield link, got
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def bench(tmp_path):
    bench = Bench(tmp_path)
    await bench.start()
    running = asyncio.ensure_future(bench.hub.run())
    yield bench
    running.cancel()
    await bench.hub.stop()
    with contextlib.suppress(asyncio.CancelledError):
        await running


@pytest.fixture
def g1(bench):
    return bench.cluster.join(bench.folder / "gateway", Part.GATEWAY, "g1")


async def test_a_gateway_of_another_machine_gets_the_view_and_is_heard(bench, g1):
    async with bench.gateway(g1) as (link, got):
        await until(lambda: got)
        assert isinstance(got[0], ViewSnapshot)
        link.send(GatewayReport(report=DemandReport(gateway="g1", seq=1)))
        await until(lambda: bool(bench.board.reports()))
        assert [peer.address for peer in bench.hub.reachable()] == ["g1:8805"]


@pytest.mark.parametrize(
    ("part", "shown", "reason"),
    [
        (Part.NODE, "g1", "the certificate is of node g1, not of gateway g1"),
        (Part.SERVER, "g1", "the certificate is of server g1, not of gateway g1"),
        (Part.GATEWAY, "g2", "the certificate is of gateway g2, not of gateway g1"),
    ],
)
async def test_who_is_not_the_gateway_it_says_is_refused_and_told_why(bench, tmp_path, part, shown, reason):
    stranger = bench.cluster.join(tmp_path / "stranger", part, shown)
    with capture_logs() as logs:
        async with bench.gateway(stranger) as (_, got):
            await until(lambda: [line for line in logs if line["event"] == "control.lost"])
    assert not got
    assert not bench.board.gateways()
    assert next(line["reason"] for line in logs if line["event"] == "gateway.refused") == reason
    assert reason in next(line["reason"] for line in logs if line["event"] == "control.lost")


async def test_a_certificate_of_another_cluster_gets_no_connection(bench, tmp_path):
    foreign = Cluster().join(tmp_path / "foreign", Part.GATEWAY, "g1", trusts=bench.cluster)
    with capture_logs() as logs:
        async with bench.gateway(foreign) as (_, got):
            await until(lambda: [line for line in logs if line["event"] == "tls.refused"])
    assert not got


async def test_a_gateway_says_nothing_to_who_is_no_control_plane(bench, g1):
    with capture_logs() as logs:
        async with bench.gateway(g1, takes=(Part.NODE,)) as (_, got):
            await until(lambda: [line for line in logs if line["event"] == "control.lost"])
    assert not got
    assert not [line for line in logs if line["event"] == "gateway.connected"]
    assert "it is refused: it is server c1" in next(line["reason"] for line in logs if line["event"] == "control.lost")


async def test_a_gateway_that_is_removed_is_let_go_at_once(bench, g1):
    with capture_logs() as logs:
        async with bench.gateway(g1) as (_, got):
            await until(lambda: got and bench.board.gateways())
            bench.removed.add("g1")
            bench.fleet.changes.notify()
            await until(lambda: not bench.board.gateways())
    refused = [line for line in logs if line["event"] == "gateway.refused"]
    assert (refused[0]["gateway"], refused[0]["reason"]) == ("g1", "gateway g1 was removed")
