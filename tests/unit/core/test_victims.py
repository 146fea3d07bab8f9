import msgspec

from llmgw.core.feasible import Rooms
from llmgw.core.fit import need_of
from llmgw.core.gaps import gaps
from llmgw.core.victims import victims
from llmgw.schema.plan import Claim
from llmgw.testing.factories import (
    make_allocation,
    make_model,
    make_node,
    make_replica,
    make_seen,
    make_snapshot,
    make_want,
)


def crowd(kept=()):
    """A node of 8 cores that a small judge and a larger chat model fill."""
    judge = make_replica("r1", model="guard", allocations=(make_allocation(cores=3.0),))
    chat = make_replica("r2", model="chat", allocations=(make_allocation(cores=5.0),))
    models = tuple(make_want(make_model(name)) for name in ("guard", "chat"))
    whole = make_snapshot(nodes=(make_seen(make_node(cores=8.0)),), models=models, replicas=(judge, chat))
    return msgspec.structs.replace(whole, kept=frozenset(kept))


def chosen(snapshot):
    need = need_of(make_want(make_model("new"), claim=Claim(cores=2.0)))
    (gap,) = gaps(Rooms(snapshot.nodes, snapshot.replicas), need)
    found = victims(snapshot, gap, "new", need)
    return None if found is None else [replica.model for replica in found]


def test_the_smallest_model_that_suffices_would_give_room():
    assert chosen(crowd()) == ["guard"]


def test_a_judge_that_policies_need_gives_room_to_nobody():
    assert chosen(crowd(kept={"guard"})) == ["chat"]
    assert chosen(crowd(kept={"guard", "chat"})) is None
