import msgspec
import pytest

from llmgw.core.planner import LOOKING_TIME, plan
from llmgw.schema.model import ModelStatus, Parked
from llmgw.schema.node import Reachability
from llmgw.schema.plan import Claim, Constraint
from llmgw.schema.replica import ReplicaState
from llmgw.testing.factories import (
    GIB,
    NOW,
    carried_out,
    make_allocation,
    make_model,
    make_node,
    make_replica,
    make_seen,
    make_snapshot,
    make_want,
)

BIG = Claim(memory_bytes=20 * GIB)


def held(name, *, model="demo", node="n1", state=ReplicaState.READY, revision=1):
    allocation = make_allocation(node, memory_bytes=20 * GIB)
    return make_replica(name, model=model, state=state, revision=revision, allocations=[allocation])


def big(name="demo", **fields):
    return make_want(make_model(name, **fields), claim=BIG)


def test_a_model_is_placed_where_it_fits_with_what_it_claims():
    (placement,) = plan(make_snapshot([make_node()], [big(revision=3)])).placements
    assert (placement.model, placement.revision) == ("demo", 3)
    assert placement.allocations == (make_allocation("n1", memory_bytes=20 * GIB),)


def test_replicas_of_one_plan_do_not_share_room_and_spread():
    made = plan(make_snapshot([make_node("n1"), make_node("n2")], [big(min=3)]))
    assert sorted(p.allocations[0].node for p in made.placements) == ["n1", "n2"]
    (short,) = made.shortfalls
    assert (short.model, short.missing, short.sentence) == ("demo", 1, "2 nodes: 2 short of memory")
    assert [r.constraint for r in short.rejections] == [Constraint.MEMORY] * 2


def test_what_a_failed_replica_holds_is_its_own():
    made = plan(make_snapshot([make_node()], [big(), big("other")], [held("ra", state=ReplicaState.FAILED)]))
    assert (made.placements, made.removals) == ((), ())
    assert made.shortfalls[0].model == "other"


@pytest.mark.parametrize("model", ["demo", "gone"])
def test_it_waits_for_room_that_is_on_its_way(model):
    draining = held("ra", model=model, state=ReplicaState.DRAINING)
    made = plan(make_snapshot([make_node()], [big()], [draining]))
    assert (made.placements, made.removals, made.shortfalls) == ((), (), ())


def test_room_that_a_large_model_waits_for_is_not_taken_piece_by_piece_by_smaller_ones():
    large = make_want(make_model("large"), claim=Claim(memory_bytes=32 * GIB))
    small = make_want(make_model("small"), claim=Claim(memory_bytes=GIB))
    draining = make_replica(
        "ra", model="gone", state=ReplicaState.DRAINING, allocations=[make_allocation(memory_bytes=9 * GIB)]
    )
    made = plan(make_snapshot([make_node()], [large, small], [draining]))
    assert (made.placements, [short.model for short in made.shortfalls]) == ((), ["small"])
    elsewhere = plan(make_snapshot([make_node(), make_node("n2", memory_bytes=GIB)], [large, small], [draining]))
    assert [(p.model, p.allocations[0].node) for p in elsewhere.placements] == [("small", "n2")]
    freed = plan(make_snapshot([make_node(), make_node("n2", memory_bytes=GIB)], [large, small]))
    assert [p.model for p in freed.placements] == ["large", "small"]


def test_it_waits_for_a_node_that_has_yet_to_report():
    unheard = make_seen(make_node(), reports=None)
    assert plan(make_snapshot([unheard], [big()])).shortfalls == ()
    too_small = make_seen(make_node(memory_bytes=GIB), reports=None)
    assert plan(make_snapshot([too_small], [big()])).shortfalls[0].sentence == "1 node: n1 is not heard yet"


def test_a_new_model_waits_for_nodes_to_look_for_its_weights_but_not_for_ever():
    node = make_node(weights=())
    assert plan(make_snapshot([node], [big()])).shortfalls == ()
    late = plan(make_snapshot([node], [big()], now=NOW + 2 * LOOKING_TIME))
    assert late.shortfalls[0].rejections[0].constraint is Constraint.WEIGHTS
    elsewhere_full = make_node(weights=(), memory_bytes=GIB)
    assert plan(make_snapshot([elsewhere_full], [big()])).shortfalls == ()


def test_a_changed_model_without_room_stops_the_old_before_the_new_starts():
    first = make_snapshot([make_node()], [big(revision=2)], [held("ra")])
    made = plan(first)
    assert [(r.replica, r.reason) for r in made.removals] == [
        ("ra", "replaced by revision 2; makes room for its replacement")
    ]
    assert (made.placements, made.shortfalls) == ((), ())
    after = carried_out(first, made)
    assert plan(after).shortfalls == ()
    freed = msgspec.structs.replace(after, replicas=())
    assert len(plan(freed).placements) == 1


def test_a_changed_model_that_fits_nowhere_keeps_serving_as_it_was():
    too_big = make_want(make_model(revision=2), claim=Claim(memory_bytes=99 * GIB))
    made = plan(make_snapshot([make_node()], [too_big], [held("ra")]))
    assert made.removals == ()
    assert made.shortfalls[0].sentence == "1 node: n1 needs 99.0 GiB of memory, has 32.0 GiB"


def test_only_one_round_of_making_room_at_a_time():
    small = make_node("n2", memory_bytes=GIB)
    draining = make_replica("rx", state=ReplicaState.DRAINING, model="gone", allocations=[make_allocation("n2")])
    replicas = [held("ra"), draining]
    made = plan(make_snapshot([make_node(), small], [big(revision=2)], replicas))
    assert (made.removals, made.shortfalls) == ((), ())
    stuck = make_node("n2", memory_bytes=GIB, reachability=Reachability.UNREACHABLE)
    made = plan(make_snapshot([make_node(), stuck], [big(revision=2)], replicas))
    assert [removal.replica for removal in made.removals] == ["ra"]


def test_what_a_parked_model_left_goes_only_when_its_room_is_wanted():
    status = ModelStatus(model="broken", parked=Parked(failures=5, reason="not GGUF", since=NOW))
    broken = make_want(make_model("broken"), claim=BIG, status=status)
    corpse = held("rdead", model="broken", state=ReplicaState.FAILED)
    small = make_want(make_model("small"), claim=Claim(memory_bytes=GIB))
    assert plan(make_snapshot([make_node()], [broken, small], [corpse])).removals == ()
    made = plan(make_snapshot([make_node()], [broken, big("other")], [corpse]))
    assert [removal.replica for removal in made.removals] == ["rdead"]
    assert made.shortfalls == ()
    elsewhere = plan(make_snapshot([make_node(), make_node("n2")], [broken, big("other")], [corpse]))
    assert (elsewhere.removals, elsewhere.placements[0].allocations[0].node) == ((), "n2")


def test_nothing_is_stopped_for_what_would_not_fit_even_then():
    status = ModelStatus(model="broken", parked=Parked(failures=5, reason="not GGUF", since=NOW))
    broken = make_want(make_model("broken"), claim=BIG, status=status)
    huge = make_want(make_model("huge"), claim=Claim(memory_bytes=64 * GIB))
    corpse = held("rdead", model="broken", state=ReplicaState.FAILED)
    large = make_want(make_model("large"), claim=Claim(memory_bytes=40 * GIB))
    made = plan(make_snapshot([make_node()], [broken, huge, large], [corpse]))
    assert made.removals == ()
    assert [short.model for short in made.shortfalls] == ["huge", "large"]


def test_room_that_was_only_thought_free_is_given_to_nobody_else():
    too_big = make_want(make_model("a", revision=2), claim=Claim(memory_bytes=99 * GIB))
    made = plan(make_snapshot([make_node()], [too_big, big("b")], [held("ra", model="a")]))
    assert made.removals == ()
    assert [short.model for short in made.shortfalls] == ["a", "b"]


def test_a_live_replica_of_another_model_is_never_stopped():
    made = plan(make_snapshot([make_node()], [big(), big("other")], [held("ra")]))
    assert made.removals == ()


def test_a_returned_node_keeps_the_older_replica():
    old, new = held("ra"), held("rb", node="n2")
    made = plan(make_snapshot([make_node("n1"), make_node("n2")], [big()], [new, old]))
    assert [removal.replica for removal in made.removals] == ["rb"]


def test_an_empty_fleet_needs_nothing():
    made = plan(make_snapshot())
    assert (made.placements, made.removals, made.shortfalls) == ((), (), ())


def test_a_node_that_settles_after_a_silence_is_passed_over_and_the_refusal_says_so():
    settling = msgspec.structs.replace(make_seen(make_node("n1")), settling=True)
    (placement,) = plan(make_snapshot([settling, make_node("n2")], [big()])).placements
    assert placement.allocations[0].node == "n2"
    (short,) = plan(make_snapshot([settling], [big()])).shortfalls
    assert short.sentence == "1 node: n1 is settling after a silence"
