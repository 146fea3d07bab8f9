from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from llmgw.core.parking import BackoffPolicy
from llmgw.core.planner import plan
from llmgw.ports import DeleteReplica, FleetRows, PutNode, PutReplica
from llmgw.schema.desired import Mode
from llmgw.schema.lease import Fence
from llmgw.schema.model import Model, ModelStatus, Profile
from llmgw.schema.node import Intent, Node, Reachability
from llmgw.schema.plan import Allocation, Placement, Plan
from llmgw.schema.replica import Replica, ReplicaState, Shard, ShardPhase
from llmgw.schema.report import ShardReport
from llmgw.server.execute import Names
from llmgw.server.fold import fold
from llmgw.server.live import Live
from llmgw.server.observe import Observer
from llmgw.server.registration import Silence
from llmgw.server.turn import Heard, Rules, decide
from llmgw.testing.cluster import resolved
from llmgw.testing.fake_node import fake_facts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MODEL = Model(name="chat", source="/m.gguf", profile=Profile(cores=2.0), created_at=NOW)
NODE = Node(id="n1", facts=fake_facts("n1"), registered_at=NOW)
SHARD = Shard(id="r1.0", rank=0, allocation=Allocation(node="n1", cores=2.0), key="k")
DRAINING = Replica(
    id="r1", model="gone", revision=1, state=ReplicaState.DRAINING, shards=(SHARD,), created_at=NOW, state_since=NOW
)


def rules(planner=plan):
    return Rules(
        planner=planner,
        policy=BackoffPolicy(base_s=2.0, max_s=60.0, park_after=5),
        silence=Silence(unreachable_after_s=15.0, lost_after_s=300.0, leading_since=999.0),
        names=Names(replica=lambda: "r1", engine_key=lambda: "k"),
    )


def live(**changes):
    base = Live(
        node="n1",
        stream=1,
        facts=fake_facts("n1"),
        reports=(),
        generation=0,
        connected=True,
        heard_at=1000.0,
    )
    return replace(base, **changes)


def turn(rows, *lives, planner=plan):
    heard = Heard(live=lives, now=NOW + timedelta(minutes=5), hearing=1000.0)
    return decide(rows, heard, rules(planner), Observer(resolved))


def nothing(_snapshot):
    return Plan()


def placed():
    rows = FleetRows(models=(MODEL,), statuses=(ModelStatus(model="chat"),))
    return fold(rows, turn(rows, live()).writes)


def test_one_turn_registers_a_node_places_a_replica_and_counts_its_set():
    rows = placed()
    (replica,), (node,) = rows.replicas, rows.nodes
    assert (replica.id, replica.state) == ("r1", ReplicaState.STARTING)
    assert node.generation == 1


def test_a_turn_applied_gives_no_writes_the_next_time():
    rows = placed()
    again = turn(rows, live())
    assert again.writes == ()
    assert [found.generation for found in again.sets] == [1]


def test_the_set_ordered_is_the_one_its_generation_counts():
    rows = placed()
    (found,) = turn(rows, live()).sets
    order = found.order(Fence(epoch=3, holder="us"), Mode.ENFORCE)
    assert (order.epoch, order.holder, order.generation, order.mode) == (3, "us", 1, Mode.ENFORCE)
    assert [(shard.id, shard.attempt, shard.key) for shard in order.shards] == [("r1.0", 1, "k")]
    assert order.watch_paths == ("/m.gguf",)


def test_a_report_of_readiness_makes_the_replica_ready_with_its_endpoint():
    rows = placed()
    report = ShardReport(
        id="r1.0",
        attempt=1,
        phase=ShardPhase.READY,
        model="chat",
        engine=MODEL.profile.engine,
        endpoint="http://127.0.0.1:1",
        slots=4,
    )
    writes = turn(rows, live(reports=(report,), generation=1)).writes
    (put,) = [write.replica for write in writes if isinstance(write, PutReplica)]
    assert put.state is ReplicaState.READY
    assert (put.shards[0].endpoint, put.shards[0].slots) == ("http://127.0.0.1:1", 4)
    assert not any(isinstance(write, PutNode) for write in writes)


def test_a_plan_against_an_invariant_is_refused_whole():
    twice = Placement(model="chat", revision=1, allocations=(Allocation(node="n1", cores=99.0),))
    rows = FleetRows(nodes=(NODE,), models=(MODEL,), statuses=(ModelStatus(model="chat"),))
    refused = turn(rows, live(), planner=lambda _: Plan(placements=(twice,)))
    assert refused.violations
    assert not any(isinstance(write, PutReplica) for write in refused.writes)


@pytest.mark.parametrize(
    ("heard", "goes"),
    [
        ((live(generation=7),), True),
        ((live(generation=6),), False),
        ((live(generation=7, connected=False),), False),
        ((), False),
    ],
    ids=["obeyed", "not yet obeyed", "disconnected", "never heard"],
)
def test_a_stopped_replicas_row_goes_only_when_its_node_obeyed_the_set_without_it(heard, goes):
    rows = FleetRows(nodes=(replace(NODE, generation=7),), replicas=(DRAINING,))
    writes = turn(rows, *heard, planner=nothing).writes
    assert (DeleteReplica(id="r1") in writes) is goes


@pytest.mark.parametrize("nodes", [(), (replace(NODE, reachability=Reachability.LOST),)], ids=["removed", "lost"])
def test_a_stopped_replicas_row_goes_with_its_node(nodes):
    rows = FleetRows(nodes=nodes, replicas=(DRAINING,))
    assert DeleteReplica(id="r1") in turn(rows, planner=nothing).writes


def test_a_generation_goes_beyond_what_an_agent_obeyed_of_a_store_that_is_lost():
    rows = placed()
    writes = turn(rows, live(generation=41)).writes
    (put,) = [write.node for write in writes if isinstance(write, PutNode)]
    assert put.generation == 42


def test_a_changed_model_starts_counting_failures_anew():
    rows = placed()
    failed = ModelStatus(model="chat", revision=1, failures=4, last_failure="broken")
    rows = fold(replace(rows, statuses=(failed,), models=(replace(MODEL, revision=2),)), ())
    after = fold(rows, turn(rows, live(generation=1)).writes)
    (status,) = after.statuses
    assert (status.revision, status.failures) == (2, 0)


@pytest.mark.parametrize(("replicas", "intent"), [((), Intent.CORDONED), ((DRAINING,), Intent.DRAINING)])
def test_a_drain_is_over_once_nothing_is_left_on_the_node(replicas, intent):
    rows = FleetRows(nodes=(replace(NODE, intent=Intent.DRAINING),), replicas=replicas)
    after = fold(rows, turn(rows, live(generation=-1), planner=nothing).writes)
    assert after.nodes[0].intent is intent


@pytest.mark.parametrize(
    ("known", "lost"),
    [
        ({}, {"n1"}),
        ({"answering": frozenset({"r1"})}, set()),
        ({"probed": frozenset({"r1"})}, {"n2"}),
    ],
)
def test_a_request_shows_that_all_shards_serve_and_a_probe_that_the_first_one_does(known, lost):
    """Both nodes are silent for so long that each is lost in its turn; `n1` is the first by name."""
    second = replace(SHARD, id="r1.1", rank=1, allocation=Allocation(node="n2", cores=2.0))
    away = {"reachability": Reachability.UNREACHABLE, "reachability_since": NOW}
    nodes = (replace(NODE, **away), replace(NODE, id="n2", **away))
    running = replace(DRAINING, state=ReplicaState.READY, model="chat", shards=(SHARD, second))
    rows = FleetRows(nodes=nodes, models=(MODEL,), replicas=(running,))
    heard = Heard(live=(), now=NOW + timedelta(minutes=10), hearing=10_000.0, **known)
    writes = decide(rows, heard, rules(nothing), Observer(resolved)).writes
    after = [write.node for write in writes if isinstance(write, PutNode)]
    assert {node.id for node in after if node.reachability is Reachability.LOST} == lost
