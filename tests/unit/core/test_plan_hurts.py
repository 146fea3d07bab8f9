from llmgw.core.plan_hurts import hurts
from llmgw.schema.plan import Plan, Removal
from llmgw.schema.replica import ReplicaState
from llmgw.testing.factories import make_model, make_node, make_replica, make_snapshot


def stop(*replicas):
    return Plan(removals=tuple(Removal(replica=name, reason="because") for name in replicas))


def fleet(*replicas, **model):
    return make_snapshot([make_node()], [make_model(**model)], replicas)


def test_a_model_that_loses_a_ready_replica_it_needs_is_hurt():
    snapshot = fleet(make_replica("ra"), make_replica("rb"), min=2)
    assert hurts(snapshot, stop("ra")) == ("demo has 1 of 2 replicas ready until others are",)
    assert hurts(snapshot, stop("ra", "rb")) == ("demo has 0 of 2 replicas ready until others are",)


def test_what_is_too_many_or_not_ready_hurts_nobody():
    assert hurts(fleet(make_replica("ra"), make_replica("rb"), min=1), stop("ra")) == ()
    assert hurts(fleet(make_replica("ra", state=ReplicaState.FAILED)), stop("ra")) == ()


def test_a_model_that_is_short_already_and_loses_nothing_is_not_hurt_by_the_plan():
    assert hurts(fleet(min=2), Plan()) == ()


def test_a_replica_of_a_model_that_is_gone_hurts_nobody():
    snapshot = make_snapshot([make_node()], [], [make_replica("ra")])
    assert hurts(snapshot, stop("ra")) == ()
