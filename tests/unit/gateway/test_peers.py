"""Masters that tell each other their load, in one process, over real streams on loopback."""

import asyncio
import contextlib
import time

import pytest
from structlog.testing import capture_logs

from llmgw.gateway import peer_loads, peer_news
from llmgw.gateway.listener import listen
from llmgw.gateway.peer_records import PeerLoad, pack_load
from llmgw.gateway.peers import Peers
from llmgw.gateway.worker_link import Placed, WorkerLoad
from llmgw.link.frames import framed, pack
from llmgw.schema.identity import Part
from llmgw.schema.peer import PeerHello
from llmgw.schema.view import Peer, PeersSection, View
from llmgw.testing.gateway_room import until
from llmgw.testing.identities import Cluster


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(peer_news, "TELL_S", 0.01)
    monkeypatch.setattr(peer_news, "AGAIN_S", 0.05)
    monkeypatch.setattr(peer_loads, "SMOOTH_S", 0.01)


@pytest.fixture(scope="module")
def cluster():
    return Cluster()


class Master:
    def __init__(self, name, identity=None):
        self.name = name
        self.known = []
        self.peers = Peers(name, version="1", identity=identity, known=lambda: self.known)
        self.heard = []
        self.peers.on_placed = self.heard.append
        self.sock = listen("127.0.0.1:0")
        self.peer = Peer(name=name, address=f"127.0.0.1:{self.sock.getsockname()[1]}")

    def tell(self, in_flight):
        self.peers.news.tell(WorkerLoad(in_flight=in_flight, queued=dict.fromkeys(in_flight, 100)))

    def elsewhere(self):
        return self.peers.loads.elsewhere(time.monotonic())


def seen(*peers):
    return View(source="c1", peers=PeersSection(version=1, peers=peers))


@contextlib.asynccontextmanager
async def running(*masters):
    tasks = [asyncio.ensure_future(one.peers.run(one.sock)) for one in masters]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture(params=["plain", "tls"])
def three(request, cluster, tmp_path):
    def made(name):
        secure = request.param == "tls"
        return Master(name, cluster.join(tmp_path / name, Part.GATEWAY, name) if secure else None)

    masters = [made("g1"), made("g2"), made("g3")]
    yield masters
    for master in masters:
        master.sock.close()


async def test_each_knows_what_all_the_others_have(three):
    one, two, _ = three
    for each in three:
        each.peers.take(seen(*(other.peer for other in three)))
    async with running(*three):
        one.tell({"r1": 2})
        two.tell({"r1": 1, "r2": 4})
        await until(lambda: [each.elsewhere() for each in three] == [{"r1": 1, "r2": 4}, {"r1": 2}, {"r1": 3, "r2": 4}])
        assert one.peers.states(time.monotonic()) == {"known": 2, "silent": 0}
        assert three[2].peers.loads.queued(time.monotonic()) == {"r1": 200, "r2": 100}
        one.tell({})
        await until(lambda: two.elsewhere() == {})


async def test_what_is_put_to_replicas_is_heard_once_and_who_comes_later_hears_what_was_known(three):
    one, two, late = three
    for each in three:
        each.peers.take(seen(*(other.peer for other in three)))
    before, after = (Placed(replica="r1", chain=bytes([number]) * 16) for number in (1, 2))
    one.known = [before]
    async with running(one, two):
        await until(lambda: two.heard == [before])
        one.known.append(after)
        one.peers.news.placed(after)
        await until(lambda: len(two.heard) > 1)
        async with running(late):
            await until(lambda: len(late.heard) > 1)
    assert two.heard == late.heard == [before, after]


async def test_a_gateway_that_leaves_the_view_is_told_nothing_and_heard_no_more(three, monkeypatch):
    one, two, _ = three
    for each in (one, two):
        each.peers.take(seen(one.peer, two.peer))
    async with running(one, two):
        one.tell({"r1": 2})
        two.tell({"r1": 1})
        await until(lambda: bool(one.elsewhere() and two.elsewhere()))
        one.peers.take(seen(one.peer))
        monkeypatch.setattr(peer_loads, "EXPIRES_S", 0.1)
        await until(lambda: one.elsewhere() == {} and two.elsewhere() == {})


async def test_a_peer_that_comes_later_is_found(three):
    one, two, _ = three
    one.peers.take(seen(one.peer, two.peer))
    two.peers.take(seen(one.peer, two.peer))
    one.tell({"r1": 2})
    two.sock.close()
    async with running(one):
        await asyncio.sleep(0.05)
        two.sock = listen(two.peer.address)
        async with running(two):
            await until(lambda: two.elsewhere() == {"r1": 2})


async def test_a_peer_that_hangs_keeps_nobody_from_the_others(three):
    one, two, _ = three
    hung = listen("127.0.0.1:0")  # connections wait in its queue for ever
    everybody = seen(one.peer, two.peer, Peer(name="g9", address=f"127.0.0.1:{hung.getsockname()[1]}"))
    one.peers.take(everybody)
    two.peers.take(everybody)
    with hung:
        async with running(one, two):
            one.tell({"r1": 2})
            await until(lambda: two.elsewhere() == {"r1": 2})
            assert two.peers.states(time.monotonic()) == {"known": 1, "silent": 1}


@pytest.mark.parametrize(
    ("shown", "says", "reason"),
    [
        ("gateway/g3", "g2", "its certificate is of gateway g3"),
        ("node/g2", "g2", "its certificate is of node g2"),
        ("gateway/g4", "g4", "the routing view knows no gateway of this name"),
    ],
)
async def test_who_is_no_gateway_of_the_view_by_its_own_name_is_not_heard(cluster, tmp_path, shown, says, reason):
    one = Master("g1", cluster.join(tmp_path / "g1", Part.GATEWAY, "g1"))
    one.peers.take(seen(one.peer, Peer(name="g2", address="127.0.0.1:9")))
    stranger = cluster.join(tmp_path / "stranger", Part(shown.split("/")[0]), shown.split("/")[1]).dialling()
    with capture_logs() as logs:
        async with running(one):
            host, _, port = one.peer.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port), ssl=stranger, server_hostname="")
            writer.write(pack(PeerHello(gateway=says, version="1", run="x")))
            writer.write(framed(pack_load(PeerLoad(sequence=1, in_flight={"r1": 9}))))
            async with asyncio.timeout(5):
                with contextlib.suppress(ConnectionError):
                    await reader.read()
            writer.transport.abort()
    assert one.elsewhere() == {}
    assert next(line["reason"] for line in logs if line["event"] == "peer.refused") == reason


async def test_nothing_is_told_to_who_is_not_the_gateway_of_the_view(cluster, tmp_path):
    one = Master("g1", cluster.join(tmp_path / "g1", Part.GATEWAY, "g1"))
    other = Master("g3", cluster.join(tmp_path / "g3", Part.GATEWAY, "g3"))
    posing = Peer(name="g2", address=other.peer.address)
    one.peers.take(seen(one.peer, posing))
    other.peers.take(seen(one.peer, other.peer, posing))
    one.tell({"r1": 2})
    with capture_logs() as logs:
        async with running(one, other):
            await until(lambda: any(line["event"] == "peer.lost" for line in logs))
    assert next(line["reason"] for line in logs if line["event"] == "peer.lost").startswith(
        "it is refused: it is gatew"
    )
    assert other.elsewhere() == {}


async def test_without_tls_other_machines_are_not_dialled_unless_it_is_written_out():
    one = Master("g1")
    one.peers.take(seen(one.peer, Peer(name="g2", address="192.0.2.1:8805")))
    with capture_logs() as logs:
        async with running(one):
            await until(lambda: bool(logs))
    assert [(line["event"], line["peer"]) for line in logs] == [("peer.not_dialled", "g2")]
