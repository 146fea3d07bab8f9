import asyncio
import time

import pytest

from llmgw.core.prefix import packed
from llmgw.gateway import news, peer_loads
from llmgw.gateway.listener import listen
from llmgw.gateway.peer_records import PeerLoad
from llmgw.gateway.peers import Peers
from llmgw.gateway.shared_load import SharedLoad
from llmgw.gateway.worker_link import Elsewhere, NewlyPlaced, Placed, WorkerLoad
from llmgw.schema.view import Peer, PeersSection
from llmgw.testing.gateway_room import a_replica, a_route, a_view, until

BEHIND = Placed(replica="r1", chain=packed((17,)))
SAID = NewlyPlaced(placed=(BEHIND,))


class Workers(list):
    """What workers were told."""

    def send(self, worker, message):
        self.append((worker, message))

    def of(self, worker):
        return [message for number, message in self if number == worker]


def view(*peers):
    found = a_view(a_route(a_replica("r1", "http://127.0.0.1:9001"), a_replica("r2", "http://127.0.0.1:9002")))
    return type(found)(source=found.source, routes=found.routes, peers=PeersSection(version=1, peers=peers))


@pytest.fixture
async def alone():
    workers = Workers()
    shared = SharedLoad(workers.send)
    shared.take(view())
    running = asyncio.ensure_future(shared.run())
    yield shared, workers
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_worker_is_told_what_the_others_have_and_never_its_own(alone):
    shared, workers = alone
    for number in (1, 2, 3):
        shared.join(number)
    shared.heard(1, WorkerLoad(in_flight={"r1": 2}, queued={"r1": 70}))
    shared.heard(2, WorkerLoad(in_flight={"r1": 1, "r2": 1}))
    await until(lambda: len(workers) == 3)
    assert workers.of(1) == [Elsewhere(in_flight={"r1": 1, "r2": 1})]
    assert workers.of(2) == [Elsewhere(in_flight={"r1": 2}, queued={"r1": 70})]
    assert workers.of(3) == [Elsewhere(in_flight={"r1": 3, "r2": 1}, queued={"r1": 70})]
    shared.leave(1)
    await until(lambda: len(workers.of(3)) == 2)
    assert workers.of(3)[1] == Elsewhere(in_flight={"r1": 1, "r2": 1})
    assert shared.peers() is None


async def test_a_prompt_that_was_put_is_handed_on_at_once_and_to_workers_that_come_later(alone):
    shared, workers = alone
    shared.join(1)
    shared.join(2)
    shared.heard(1, NewlyPlaced(placed=(BEHIND, Placed(replica="gone", chain=bytes(8)))))
    assert workers == [(2, SAID)]
    shared.leave(1)
    shared.join(3)
    assert workers.of(3) == [SAID]


async def test_what_other_gateways_say_reaches_all_workers_and_fades_with_them(monkeypatch):
    monkeypatch.setattr(news, "TELL_S", 0.01)
    monkeypatch.setattr("llmgw.gateway.shared_load.LOOK_S", 0.02)
    workers, peers = Workers(), Peers("g1", version="1", identity=None)
    shared = SharedLoad(workers.send, peers=peers, sock=listen("127.0.0.1:0"))
    shared.take(view(Peer(name="g2", address="127.0.0.1:9")))
    shared.join(1)
    running = asyncio.ensure_future(shared.run())
    peers.loads.take("g2", "a", PeerLoad(sequence=1, in_flight={"r1": 2}, queued={"r1": 5}), at=time.monotonic())
    peers.on_load()
    peers.on_placed(BEHIND)
    await until(lambda: len(workers) == 2)
    assert workers.of(1) == [SAID, Elsewhere(in_flight={"r1": 2}, queued={"r1": 5})]
    assert shared.peers() == {"known": 1, "silent": 0}
    monkeypatch.setattr(peer_loads, "EXPIRES_S", 0.01)
    await until(lambda: len(workers) == 3)
    assert workers.of(1)[2] == Elsewhere()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
