import msgspec
import pytest

from llmgw.core.overtaken import still_true
from llmgw.core.planner import plan
from llmgw.schema.model import ModelStatus, Parked
from llmgw.schema.plan import Claim, Plan, Removal
from llmgw.schema.replica import ReplicaState
from llmgw.testing.factories import (
    GIB,
    NOW,
    carried_out,
    make_model,
    make_node,
    make_replica,
    make_snapshot,
    make_want,
)


def fleet(*models, replicas=(), nodes=("n1", "n2")):
    return make_snapshot([make_node(name) for name in nodes], models, replicas)


def test_a_plan_for_a_fleet_that_did_not_move_stands_whole():
    before = fleet(make_model("a"), make_want(make_model("b"), claim=Claim(memory_bytes=99 * GIB)))
    made = plan(before)
    standing = still_true(made, before, before)
    assert (standing.placements, standing.shortfalls) == (made.placements, made.shortfalls)
    assert standing.judged == {"a", "b"}


@pytest.mark.parametrize(
    "after",
    [
        make_want(make_model("a", revision=2)),
        make_want(make_model("a", min=0, max=1)),
        make_want(make_model("a"), claim=Claim(cores=1)),
        make_want(
            make_model("a"), status=ModelStatus(model="a", parked=Parked(failures=5, reason="broken", since=NOW))
        ),
        msgspec.structs.replace(make_want(make_model("a")), wanted=1),
    ],
    ids=["changed", "scaled", "resolved anew", "parked", "asked for"],
)
def test_what_was_decided_for_a_model_that_is_another_now_is_dropped(after):
    before = fleet(make_model("a"), make_model("b"))
    now = fleet(after, make_model("b"))
    standing = still_true(plan(before), before, now)
    assert [placement.model for placement in standing.placements] == ["b"]
    assert "a" not in standing.judged


def test_a_model_whose_replicas_moved_on_is_decided_anew():
    before = fleet(make_model("a"), make_model("b"))
    made = plan(before)
    assert still_true(made, before, carried_out(before, made)).placements == ()


def test_a_removal_stands_while_its_replica_is_as_it_was():
    replica = make_replica("ra", model="gone")
    made = Plan(removals=(Removal(replica="ra", reason="its model was removed"),))
    before = fleet(replicas=[replica])
    assert still_true(made, before, before).removals == made.removals
    draining = msgspec.structs.replace(replica, state=ReplicaState.DRAINING)
    assert still_true(made, before, fleet(replicas=[draining])).removals == ()
    assert still_true(made, before, fleet()).removals == ()


def test_a_model_flagged_before_loses_the_flag_only_if_it_did_not_change():
    flagged = ModelStatus(model="a", unplaceable="2 nodes: 2 full")
    before = fleet(make_want(make_model("a"), status=flagged), replicas=[make_replica("ra", model="a")])
    assert still_true(Plan(), before, before).judged == {"a"}
    now = fleet(make_want(make_model("a", min=2), status=flagged), replicas=before.replicas)
    assert still_true(Plan(), before, now).judged == frozenset()


def test_refusals_are_dropped_when_nodes_came_or_went_and_placements_are_not():
    before = fleet(make_model("a"), make_want(make_model("b"), claim=Claim(memory_bytes=99 * GIB)))
    now = fleet(*before.models, nodes=("n1", "n2", "n3"))
    standing = still_true(plan(before), before, now)
    assert [placement.model for placement in standing.placements] == ["a"]
    assert (standing.shortfalls, standing.judged) == ((), frozenset())
