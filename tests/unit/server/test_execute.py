from datetime import UTC, datetime

from msgspec.structs import replace

from llmgw.core.snapshot import ModelSnapshot, Snapshot
from llmgw.ports import AppendEvent, PutReplica, PutStatus
from llmgw.schema.model import Model, ModelStatus
from llmgw.schema.plan import Allocation, Claim, Constraint, Placement, Plan, Rejection, Removal, Shortfall
from llmgw.schema.replica import Replica, ReplicaState, Shard
from llmgw.server.execute import Names, carry_out

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EARLIER = datetime(2025, 1, 1, tzinfo=UTC)
MODEL = Model(name="chat", source="/m.gguf", created_at=EARLIER)
READY = Replica(
    id="r1", model="chat", revision=1, state=ReplicaState.READY, shards=(), created_at=EARLIER, state_since=EARLIER
)


def names():
    ids, keys = iter("ab"), iter("kl")
    return Names(replica=lambda: next(ids), engine_key=lambda: next(keys))


def snapshot(*replicas, status=None):
    model = ModelSnapshot(model=MODEL, status=status or ModelStatus(model="chat"), claim=Claim())
    return Snapshot(now=NOW, models=(model,), replicas=replicas)


def test_an_empty_plan_writes_nothing():
    assert carry_out(Plan(), snapshot(READY), names()) == ()


def test_a_placement_becomes_a_starting_replica_with_a_shard_and_a_key_per_allocation():
    allocations = (Allocation(node="n1", cores=2.0), Allocation(node="n2", cores=2.0))
    plan = Plan(placements=(Placement(model="chat", revision=3, allocations=allocations),))
    put, event = carry_out(plan, snapshot(), names())
    assert put == PutReplica(
        replica=Replica(
            id="a",
            model="chat",
            revision=3,
            state=ReplicaState.STARTING,
            shards=(
                Shard(id="a.0", rank=0, allocation=allocations[0], key="k"),
                Shard(id="a.1", rank=1, allocation=allocations[1], key="l"),
            ),
            created_at=NOW,
            state_since=NOW,
        )
    )
    assert event.event.kind == "replica.placed"


def test_a_removal_drains_once():
    plan = Plan(removals=(Removal(replica="r1", reason="model was removed"),))
    put, event = carry_out(plan, snapshot(READY), names())
    assert put.replica == replace(READY, state=ReplicaState.DRAINING, state_since=NOW, reason="model was removed")
    assert "model was removed" in event.event.message
    assert carry_out(plan, snapshot(put.replica), names()) == ()
    assert carry_out(plan, snapshot(), names()) == ()


def test_a_shortfall_is_told_once_and_taken_back_when_it_is_over():
    rejections = (Rejection(node="n1", constraint=Constraint.MEMORY, detail="full"),)
    plan = Plan(shortfalls=(Shortfall(model="chat", missing=1, sentence="1 node: full", rejections=rejections),))
    put, event = carry_out(plan, snapshot(), names())
    told = ModelStatus(model="chat", unplaceable="1 node: full", rejections=rejections)
    assert put == PutStatus(status=told)
    assert isinstance(event, AppendEvent)
    assert carry_out(plan, snapshot(status=told), names()) == ()
    assert carry_out(Plan(), snapshot(status=told), names()) == (PutStatus(status=ModelStatus(model="chat")),)
