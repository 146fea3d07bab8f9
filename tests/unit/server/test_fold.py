from datetime import UTC, datetime

from llmgw.ports import (
    AppendEvent,
    DeleteModel,
    DeleteNode,
    DeleteReplica,
    FleetRows,
    PutModel,
    PutNode,
    PutReplica,
    PutStatus,
)
from llmgw.schema.event import Event, Severity
from llmgw.schema.lease import Fence, LeaseRow
from llmgw.schema.model import Model, ModelStatus
from llmgw.schema.node import Node
from llmgw.schema.replica import Replica, ReplicaState
from llmgw.server.fold import fold
from llmgw.store.memory import MemoryStore
from llmgw.testing.clock import FakeClock
from llmgw.testing.fake_node import fake_facts

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def model(name, **changes):
    return Model(name=name, source="/m.gguf", created_at=NOW, **changes)


def node(name, **changes):
    return Node(id=name, facts=fake_facts(name), registered_at=NOW, **changes)


def replica(name):
    return Replica(id=name, model="a", revision=1, state=ReplicaState.READY, shards=(), created_at=NOW, state_since=NOW)


WRITES = (
    PutNode(node=node("n2")),
    PutNode(node=node("n1")),
    PutModel(model=model("b")),
    PutModel(model=model("a")),
    PutStatus(status=ModelStatus(model="a")),
    PutStatus(status=ModelStatus(model="b")),
    PutReplica(replica=replica("r2")),
    PutReplica(replica=replica("r1")),
    PutNode(node=node("n1", generation=4)),
    DeleteNode(id="n2"),
    DeleteNode(id="never"),
    DeleteModel(name="b"),
    DeleteReplica(id="r2"),
    AppendEvent(event=Event(at=NOW, kind="k", severity=Severity.INFO, message="m")),
)


def test_rows_are_in_order_of_their_names_whatever_the_order_of_writes():
    rows = fold(FleetRows(), WRITES[:8])
    assert [one.id for one in rows.nodes] == ["n1", "n2"]
    assert [one.name for one in rows.models] == ["a", "b"]
    assert [one.id for one in rows.replicas] == ["r1", "r2"]


def test_a_table_that_nothing_changed_in_stays_the_same_object():
    rows = fold(FleetRows(), WRITES)
    after = fold(rows, (PutStatus(status=ModelStatus(model="a", failures=1)), PutModel(model=rows.models[0])))
    assert after.statuses is not rows.statuses
    assert after.nodes is rows.nodes
    assert after.models is rows.models
    assert after.replicas is rows.replicas


def test_a_removed_model_takes_its_status_along():
    rows = fold(FleetRows(), WRITES)
    assert [status.model for status in rows.statuses] == ["a"]


async def test_memory_holds_what_a_store_holds_after_the_same_writes():
    clock = FakeClock()
    store = MemoryStore(clock)
    lease = store.lease_store()
    row = LeaseRow(holder="h", epoch=1, beat=1, released=False, name="c", address="a", renewed_at=NOW)
    assert lease.take(None, row)
    await store.leader(Fence(epoch=1, holder="h")).apply(WRITES)
    assert fold(FleetRows(), WRITES) == fold(await store.load_fleet(), ())
