import asyncio

import pytest

from llmgw.gateway import shared_load
from llmgw.gateway.listener import listen
from llmgw.gateway.peer_records import PeerLoad
from llmgw.gateway.peers import Peers
from llmgw.gateway.shared_load import SharedLoad
from llmgw.gateway.worker_link import Elsewhere
from llmgw.schema.view import Peer, PeersSection, View
from llmgw.testing.gateway_room import until


class Told:
    """Other gateways, as far as one tells them something."""

    def __init__(self):
        self.own = []

    def tell(self, in_flight):
        self.own.append(in_flight)


def test_the_load_of_all_workers_goes_out_together_and_ends_with_them():
    peers = Told()
    shared = SharedLoad(peers, None, lambda _: None)
    shared.heard(1, {"r1": 2})
    shared.heard(2, {"r1": 1, "r2": 1})
    shared.heard(1, {})
    assert peers.own == [{"r1": 2}, {"r1": 3, "r2": 1}, {"r1": 1, "r2": 1}]


@pytest.fixture
async def shared(monkeypatch):
    monkeypatch.setattr(shared_load, "TELL_S", 0.01)
    peers, told = Peers("g1", version="1", identity=None), []
    shared = SharedLoad(peers, listen("127.0.0.1:0"), told.append)
    shared.take(View(source="c", peers=PeersSection(version=1, peers=(Peer(name="g2", address="127.0.0.1:9"),))))
    running = asyncio.ensure_future(shared.run())
    yield shared, peers, told
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_workers_are_told_of_other_gateways_when_something_changed(shared, monkeypatch):
    parts, peers, told = shared
    now = asyncio.get_running_loop().time()
    peers.loads.take("g2", "a", PeerLoad(sequence=1, in_flight={"r1": 2}), at=now)
    await until(lambda: bool(told))
    await asyncio.sleep(0.05)
    assert told == [Elsewhere(in_flight={"r1": 2})]
    assert parts.elsewhere == told[0]
    assert parts.peers() == {"known": 1, "silent": 0}

    monkeypatch.setattr("llmgw.gateway.peer_loads.EXPIRES_S", 0.01)
    await until(lambda: len(told) == 2)
    assert told[1] == Elsewhere()
