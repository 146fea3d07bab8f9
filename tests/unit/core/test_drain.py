from llmgw.core.drain import foreseen, preview
from llmgw.core.planner import plan
from llmgw.schema.admin.drain import DrainMove, DrainPreview
from llmgw.schema.model import ModelStatus, Parked
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

BIG = Claim(memory_bytes=20 * GIB)


def on(node, name="ra", *, model="demo", state=ReplicaState.READY):
    return make_replica(name, model=model, state=state, allocations=[make_allocation(node, memory_bytes=20 * GIB)])


def seen(nodes, models, replicas, node="n1"):
    return preview(
        make_snapshot([make_node(n) if isinstance(n, str) else n for n in nodes], models, replicas), node, plan
    )


def test_a_replica_that_fits_elsewhere_moves_and_says_where():
    found = seen(["n1", "n2"], [make_want(make_model(), claim=BIG)], [on("n1")])
    assert found == DrainPreview(moves=(DrainMove(replica="ra", model="demo", to=("n2",)),))


def test_several_replicas_of_one_model_move_one_after_another():
    model = make_want(make_model(min=2), claim=Claim(memory_bytes=10 * GIB))
    pair = [on("n1", "ra"), on("n1", "rb")]
    found = seen(["n1", "n2", "n3"], [model], pair)
    assert [(one.replica, len(one.to)) for one in found.moves] == [("ra", 1), ("rb", 1)]
    assert (found.waits, found.breaks) == ((), ())


def test_what_fits_nowhere_waits_and_serves_on():
    found = seen(["n1", make_node("n2", intent=Intent.CORDONED)], [make_want(make_model(), claim=BIG)], [on("n1")])
    (wait,) = found.waits
    assert (wait.replica, found.moves, found.breaks) == ("ra", (), ())
    assert wait.reason == "2 nodes: 1 cordoned, 1 draining"


def test_room_goes_to_one_of_two_and_the_other_waits():
    models = [make_want(make_model(name), claim=BIG) for name in ("a", "b")]
    replicas = [on("n1", "ra", model="a"), on("n1", "rb", model="b")]
    found = seen(["n1", "n2"], models, replicas)
    assert ([one.replica for one in found.moves], [one.replica for one in found.waits]) == (["ra"], ["rb"])


def test_what_does_not_serve_yet_breaks_where_nothing_else_fits():
    found = seen(["n1"], [make_want(make_model(), claim=BIG)], [on("n1", state=ReplicaState.STARTING)])
    (broken,) = found.breaks
    assert broken.reason == ("its node n1 is draining; another fits nowhere now: 1 node: n1 is draining")


def test_a_parked_model_keeps_its_ready_replica_where_it_is():
    status = ModelStatus(model="demo", parked=Parked(failures=5, reason="broken", since=NOW))
    found = seen(["n1", "n2"], [make_want(make_model(), claim=BIG, status=status)], [on("n1")])
    assert [one.reason for one in found.waits] == ["nothing is placed for its model now"]


def test_a_silent_node_can_be_asked_nothing():
    silent = make_node("n1", reachability=Reachability.UNREACHABLE)
    found = seen([silent, "n2"], [make_want(make_model(), claim=BIG)], [on("n1")])
    assert [one.reason for one in found.waits] == ["node n1 is unreachable: nothing can be asked of it"]


def test_an_empty_node_has_nothing_to_tell_and_others_are_not_told_of():
    replicas = [on("n2"), on("n1", "rz", state=ReplicaState.DRAINING)]
    assert seen(["n1", "n2"], [make_want(make_model(), claim=BIG)], replicas) == DrainPreview()


def test_what_is_foreseen_is_ready_or_gone():
    snapshot = make_snapshot([make_node("n1")], [make_model()], [on("n1", state=ReplicaState.DRAINING)])
    after = foreseen(snapshot, plan(snapshot))
    assert [replica.state for replica in after.replicas] == [ReplicaState.READY]
    assert plan(after).placements == ()
