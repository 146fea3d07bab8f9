from llmgw.core.prefix import chain_of, packed, unpacked
from llmgw.gateway.placements import Placements
from llmgw.gateway.worker_link import Placed
from llmgw.testing.gateway_room import a_replica, a_route, a_view

CHAIN = chain_of(b"x" * 2048, salt=0)


def known(*replicas):
    placements = Placements()
    placements.take(a_view(a_route(*replicas)))
    return placements


def test_what_was_put_to_replicas_that_are_there_is_given_to_who_comes_later():
    placements = known(a_replica("r1", "http://127.0.0.1:9001"))
    assert placements.add(Placed(replica="r1", chain=packed(CHAIN)))
    assert not placements.add(Placed(replica="gone", chain=packed(CHAIN)))
    (placed,) = placements.all()
    assert (placed.replica, set(unpacked(placed.chain))) == ("r1", set(CHAIN))


def test_an_engine_that_was_started_anew_begins_empty_and_one_that_is_gone_is_forgotten():
    one, two = a_replica("r1", "http://127.0.0.1:9001"), a_replica("r2", "http://127.0.0.1:9002")
    placements = known(one, two)
    for replica in ("r1", "r2"):
        placements.add(Placed(replica=replica, chain=packed(CHAIN)))
    placements.take(a_view(a_route(a_replica("r1", "http://127.0.0.1:9009"), two)))
    assert [placed.replica for placed in placements.all()] == ["r2"]
    placements.take(None)
    assert placements.all() == []
