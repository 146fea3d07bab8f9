import pytest

from llmgw.core.prefix import USUAL_BLOCKS, chain_of
from llmgw.gateway.authenticate import Authenticator
from llmgw.gateway.permits import Pool
from llmgw.gateway.routes_view import KEPT_BLOCKS, LiveView, ViewGap, pools_of, with_delta, with_snapshot
from llmgw.schema.link import ViewDelta
from llmgw.schema.view import RouteReplica, RoutesDelta, View
from llmgw.testing.gateway_room import KEYS, a_replica, a_route, a_view

URL = "http://127.0.0.1:9001"


def delta(*, base: int, changed=(), removed=()) -> ViewDelta:
    return ViewDelta(routes=RoutesDelta(base=base, version=base + 1, changed=tuple(changed), removed=tuple(removed)))


def live(*routes, place=None) -> LiveView:
    view = LiveView(place=place, authenticator=Authenticator())
    view.take_snapshot(a_view(*routes))
    return view


def test_a_section_a_snapshot_does_not_know_yet_stays():
    old = a_view(a_route())
    new = with_snapshot(old, View(source="c2"))
    assert (new.source, new.routes, new.keys) == ("c2", old.routes, KEYS)


def test_deltas_change_add_and_remove_routes():
    view = a_view(a_route(model="a"), a_route(model="b"), version=4)
    changed = a_route(a_replica("r", URL), model="a")
    view = with_delta(view, delta(base=4, changed=[changed, a_route(model="c")], removed=["b", "never"]))
    assert view.routes.version == 5
    assert {route.model: len(route.replicas) for route in view.routes.routes} == {"a": 1, "c": 0}


@pytest.mark.parametrize("view", [None, View(source="c1"), a_view(version=3), a_view(version=5)])
def test_a_delta_that_does_not_follow_is_refused(view):
    with pytest.raises(ViewGap):
        with_delta(view, delta(base=4))


def test_engines_with_known_slots_are_pools_and_a_restarted_one_is_a_new_pool():
    view = a_view(a_route(a_replica("r1", URL, slots=4), a_replica("r2", URL)))
    assert pools_of(view) == {f"r1.0@{URL}": Pool(model="tiny", capacity=4)}
    moved = a_view(a_route(a_replica("r1", "http://127.0.0.1:9002", slots=4)))
    assert pools_of(moved).keys() != pools_of(view).keys()
    assert pools_of(None) == {}


def test_other_gateways_requests_count_for_the_choice_and_never_as_our_own():
    view = live(a_route(a_replica("r1", URL), a_replica("r2", "http://127.0.0.1:9002")))
    first, second = view.route("tiny").targets
    first.load += 1
    first.queued += 100
    view.take_elsewhere({"r1": 4, "gone": 7}, {"r1": 50})
    assert (first.load, first.in_flight, second.load, first.queued) == (5, 1, 0, 150)
    view.take_elsewhere({"r2": 2}, {"r2": 30})
    assert (first.queued, second.queued) == (100, 30)
    assert (first.load, first.in_flight, second.load, second.in_flight) == (1, 1, 2, 0)

    restarted = a_replica("r2", "http://127.0.0.1:9003")
    view.take_delta(delta(base=1, changed=[a_route(a_replica("r1", URL), restarted)]))
    kept, new = view.route("tiny").targets
    assert (kept.load, new.load, new.in_flight, new.queued) == (1, 2, 0, 30)


def test_a_restarted_engine_begins_with_an_empty_cache_and_others_keep_theirs():
    view = live(a_route(a_replica("r1", URL), a_replica("r2", "http://127.0.0.1:9002")))
    chain = chain_of(b"x" * 4096, salt=0)
    for replica in ("r1", "r2", "gone"):
        view.take_placed(replica, chain)
    view.route("tiny").habits.chosen(512)
    restarted = a_replica("r2", "http://127.0.0.1:9003")
    view.take_delta(delta(base=1, changed=[a_route(a_replica("r1", URL), restarted)]))
    assert [target.cache.depth(chain) for target in view.route("tiny").targets] == [16, 0]
    assert view.route("tiny").habits.usual == 512


def test_a_slot_holds_a_conversation_and_all_replicas_together_take_bounded_memory():
    view = live(a_route(a_replica("r1", URL, slots=2, context=8192), *(a_replica(f"r{n}", URL) for n in range(2, 200))))
    slots, unknown, *_ = view.route("tiny").targets
    assert slots.cache.blocks == 2 * 8192 * 4 / 256
    assert unknown.cache.blocks == USUAL_BLOCKS
    for number in range(100):
        unknown.cache.add(chain_of(str(number).encode() * 40_000, salt=0))
    assert len(unknown.cache) < 2 * KEPT_BLOCKS / 199 + 400


def test_an_engines_speed_is_learned_from_long_prompts_more_than_from_short_ones():
    (target,) = live(a_route(a_replica("r1", URL))).route("tiny").targets
    assert target.rate is None
    target.pace(100_000, 1.0)
    target.pace(1_000, 0.5)
    assert 60_000 < target.rate < 70_000


def test_a_replica_keeps_its_load_over_changes_of_the_view():
    view = live(a_route(a_replica("r1", URL)))
    view.route("tiny").targets[0].load = 3
    view.take_delta(delta(base=1, changed=[a_route(a_replica("r1", URL, slots=2), a_replica("r2", URL))]))
    first, second = view.route("tiny").targets
    assert (first.in_flight, first.slots, second.in_flight) == (3, 2, 0)
    view.take_delta(delta(base=2, changed=[a_route(a_replica("r1", "http://127.0.0.1:9002"))]))
    assert view.route("tiny").targets[0].in_flight == 0


def test_replicas_of_another_place_are_asked_through_their_door():
    def one(place, door=None):
        replica = RouteReplica(id="r", shard="r.0", node="n", place=place, endpoint=URL, door=door)
        return live(a_route(replica), place="here").route("tiny").targets

    assert one("here", "10.0.0.1:8802")[0].endpoint.port == 9001
    assert one(None)[0].endpoint.port == 9001
    assert one("there") == ()
    far = one("there", "10.0.0.1:8802")[0]
    assert (far.endpoint.host, far.prefix, far.headers) == ("10.0.0.1", "/shards/r.0", ())


def test_failures_leave_a_replica_out_longer_each_time_and_an_answer_forgives_them():
    (target,) = live(a_route(a_replica("r1", URL))).route("tiny").targets
    target.failed(100.0)
    first = target.ejected_until - 100.0
    target.failed(100.0)
    assert target.ejected_until - 100.0 == 2 * first
    for _ in range(50):
        target.failed(100.0)
    assert target.ejected_until - 100.0 == 10.0
    target.answered(1000.0)
    assert target.ejected_until == 0.0


def test_an_unusable_address_takes_out_one_replica_not_the_view():
    assert len(live(a_route(a_replica("r1", "nonsense"), a_replica("r2", URL))).route("tiny").targets) == 1
