from datetime import timedelta

from msgspec.structs import replace

from llmgw.core.wants import wanted
from llmgw.schema.model import ModelStatus, Parked, Profile
from llmgw.schema.node import Intent, Reachability
from llmgw.schema.plan import Claim
from llmgw.schema.replica import ReplicaState
from llmgw.testing.factories import (
    GIB,
    NOW,
    make_allocation,
    make_model,
    make_node,
    make_replica,
    make_snapshot,
    make_want,
)

N1, N2 = make_node("n1"), make_node("n2")
LOST = make_node("n1", reachability=Reachability.LOST)
DRAINING = make_node("n1", intent=Intent.DRAINING)


def replica(name, *, node="n1", minutes=0, **fields):
    created_at = NOW + timedelta(minutes=minutes)
    return make_replica(name, allocations=[make_allocation(node)], created_at=created_at, **fields)


def removed(*replicas, models, nodes=(N1, N2), doubtful=()):
    snapshot = replace(make_snapshot(nodes, models, replicas), doubtful=frozenset(doubtful))
    return {one.replica: one.reason for one in wanted(snapshot).removals}


def count(*replicas, models, nodes=(N1, N2)):
    return len(wanted(make_snapshot(nodes, models, replicas)).wants)


def test_a_model_wants_what_it_lacks_and_counts_what_starts_or_waits():
    model = make_model(min=3)
    assert count(models=[model]) == 3
    states = (ReplicaState.STARTING, ReplicaState.FAILED, ReplicaState.READY)
    assert count(*(replica(f"r{state}", state=state) for state in states), models=[model]) == 0
    assert count(replica("ra", state=ReplicaState.DRAINING), models=[model]) == 3


def test_orphans_go():
    gone = replica("ra", model="gone"), replica("rb", node="gone")
    assert removed(*gone, models=[make_model()]) == {
        "ra": "its model was removed",
        "rb": "its node gone was removed",
    }


def test_the_surplus_is_taken_from_those_of_least_use():
    best, later = replica("rb"), replica("rc", minutes=1)
    slow, failed = replica("ra", state=ReplicaState.STARTING), replica("rd", state=ReplicaState.FAILED)
    found = removed(later, failed, best, slow, models=[make_model(min=1)])
    assert found == dict.fromkeys(("rc", "ra", "rd"), "4 replicas, 1 wanted")
    assert set(removed(later, failed, best, slow, models=[make_model(min=2)])) == {"ra", "rd"}


def test_one_on_a_silent_node_goes_before_one_that_answers():
    silent = make_node("n1", reachability=Reachability.UNREACHABLE)
    pair = replica("ra"), replica("rb", node="n2", minutes=1)
    assert set(removed(*pair, models=[make_model()], nodes=[silent, N2])) == {"ra"}


def test_unreachable_and_cordoned_nodes_keep_their_replicas():
    for node in (make_node("n1", reachability=Reachability.UNREACHABLE), make_node("n1", intent=Intent.CORDONED)):
        found = wanted(make_snapshot([node, N2], [make_model()], [replica("ra")]))
        assert (found.removals, found.wants) == ((), ())


def test_a_stand_in_serves_until_another_does():
    for nodes, revision in (((DRAINING, N2), 1), ((N1, N2), 2)):
        model = make_model(revision=revision)
        new = replica("rb", node="n2", revision=revision, state=ReplicaState.STARTING)
        ready = replica("rb", node="n2", revision=revision)
        assert removed(replica("ra"), models=[model], nodes=nodes) == {}
        assert count(replica("ra"), models=[model], nodes=nodes) == 1
        assert removed(replica("ra"), new, models=[model], nodes=nodes) == {}
        assert count(replica("ra"), new, models=[model], nodes=nodes) == 0
        assert set(removed(replica("ra"), ready, models=[model], nodes=nodes)) == {"ra"}


def test_one_that_is_lost_with_its_node_keeps_its_row_and_waits_for_nothing():
    model, new = make_model(), replica("rb", node="n2", minutes=9)
    assert count(replica("ra"), models=[model], nodes=[LOST, N2]) == 1
    assert removed(replica("ra"), new, models=[model], nodes=[LOST, N2]) == {}
    assert count(replica("ra"), new, models=[model], nodes=[LOST, N2]) == 0
    starting = replica("ra", state=ReplicaState.STARTING)
    assert set(removed(starting, new, models=[model], nodes=[LOST, N2])) == {"ra"}
    assert set(removed(replica("ra"), models=[make_model(min=0)], nodes=[LOST, N2])) == {"ra"}


def test_of_a_node_that_came_back_the_healthy_older_one_stays_and_a_newer_one_goes():
    back, new = replica("ra"), replica("rb", node="n2", minutes=9)
    assert set(removed(back, new, models=[make_model()])) == {"rb"}
    starting = replica("rb", node="n2", minutes=9, state=ReplicaState.STARTING)
    assert set(removed(back, starting, models=[make_model()])) == {"rb"}


def test_one_that_came_back_without_its_engine_does_not_cost_the_only_healthy_one():
    back, new = replica("ra"), replica("rb", node="n2", minutes=9)
    assert set(removed(back, new, models=[make_model()], doubtful={"ra"})) == {"ra"}
    silent = make_node("n2", reachability=Reachability.UNREACHABLE)
    assert removed(back, new, models=[make_model()], nodes=[N1, silent], doubtful={"ra", "rb"}) == {}


def test_a_doubtful_replacement_dismisses_no_stand_in():
    pair = replica("ra"), replica("rb", node="n2")
    assert set(removed(*pair, models=[make_model()], nodes=[DRAINING, N2])) == {"ra"}
    assert removed(*pair, models=[make_model()], nodes=[DRAINING, N2], doubtful={"rb"}) == {}


def test_what_does_not_serve_does_not_stand_in():
    starting = replica("ra", state=ReplicaState.STARTING)
    failed = replica("rb", state=ReplicaState.FAILED)
    found = removed(starting, failed, models=[make_model(min=2, revision=2)])
    assert found == {"ra": "replaced by revision 2", "rb": "replaced by revision 2"}


def test_a_roll_replaces_one_at_a_time():
    old = [replica(f"r{n}") for n in range(3)]
    model = make_model(min=3, revision=2)
    assert count(*old, models=[model]) == 1
    new = replica("rnew", revision=2, state=ReplicaState.STARTING)
    assert count(*old, new, models=[model]) == 0
    broken = replica("rnew", revision=2, state=ReplicaState.FAILED)
    assert count(*old, broken, models=[model]) == 0
    assert count(*old[1:], replica("rnew", revision=2), models=[model]) == 1


def test_lost_replicas_are_replaced_all_at_once():
    lost = [replica(f"r{n}") for n in range(3)]
    assert count(*lost, models=[make_model(min=3)], nodes=[LOST, N2]) == 3


def test_growing_during_a_roll_does_not_wait_for_it():
    assert count(replica("ra"), models=[make_model(min=3, revision=2)]) == 2


def test_a_parked_model_wants_nothing_and_its_failed_replicas_are_corpses():
    status = ModelStatus(model="demo", parked=Parked(failures=5, reason="broken", since=NOW))
    failed = replica("ra", state=ReplicaState.FAILED)
    found = wanted(make_snapshot([N1], [make_want(make_model(min=2), status=status)], [failed]))
    assert (found.wants, found.removals, found.corpses) == ((), (), (failed,))
    changed = wanted(make_snapshot([N1], [make_want(make_model(min=2, revision=2), status=status)], [failed]))
    assert (len(changed.wants), changed.corpses) == (2, ())


def test_first_replicas_come_before_second_ones_and_large_before_small():
    large = make_want(make_model("large", min=2, profile=Profile(devices_per_node=4)), claim=Claim(devices=4))
    wide = make_want(make_model("wide", profile=Profile(nodes=2, devices_per_node=2)), claim=Claim(devices=2))
    small = make_want(make_model("small"), claim=Claim(memory_bytes=GIB))
    tiny = make_want(make_model("tiny", created_at=NOW - timedelta(days=1)))
    early = make_want(make_model("early", created_at=NOW - timedelta(days=2)))
    found = wanted(make_snapshot([N1], [tiny, early, small, large, wide]))
    names = [want.model.model.name for want in found.wants]
    assert names == ["wide", "large", "small", "early", "tiny", "large"]
