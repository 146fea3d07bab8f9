from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from llmgw.ports import FleetRows
from llmgw.schema.engine import EngineKind
from llmgw.schema.key import ApiKey
from llmgw.schema.model import Model, ModelStatus, Parked
from llmgw.schema.node import Node, Reachability
from llmgw.schema.plan import Allocation
from llmgw.schema.replica import Replica, ReplicaState, Shard, ShardPhase
from llmgw.schema.report import ShardReport
from llmgw.schema.view import KeyEntry, Route, RouteReplica
from llmgw.schema.weights import Weights, WeightsFormat
from llmgw.server.view import key_entries, routes, routes_delta
from llmgw.testing.fake_node import fake_facts

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
MODEL = Model(name="chat", source="/m.gguf", created_at=NOW)
STATUS = ModelStatus(model="chat")
NODE = Node(id="n1", facts=replace(fake_facts("n1"), door="10.0.0.1:8802"), registered_at=NOW)
SHARD = Shard(
    id="r1.0",
    rank=0,
    allocation=Allocation(node="n1"),
    key="le_key",
    phase=ShardPhase.READY,
    endpoint="http://127.0.0.1:5000",
    slots=4,
    context=4096,
)
READY = Replica(
    id="r1", model="chat", revision=1, state=ReplicaState.READY, shards=(SHARD,), created_at=NOW, state_since=NOW
)
STARTING = replace(READY, state=ReplicaState.STARTING, shards=(replace(SHARD, endpoint=None),), attempt=2)


def route(*replicas, status=STATUS, model=MODEL, reports=()):
    rows = FleetRows(nodes=(NODE,), models=(model,), statuses=(status,), replicas=replicas)
    (found,) = routes(rows, {report.id: report for report in reports})
    return found


def report(**changes):
    base = ShardReport(
        id="r1.0", attempt=2, phase=ShardPhase.STARTING, model="chat", engine=EngineKind.LLAMACPP, progress="loading"
    )
    return replace(base, **changes)


def test_a_ready_replica_is_routed_to_with_all_a_gateway_needs():
    assert route(READY) == Route(
        model="chat",
        role=MODEL.role,
        created=int(NOW.timestamp()),
        replicas=(
            RouteReplica(
                id="r1",
                shard="r1.0",
                node="n1",
                place="boot-n1:1",
                endpoint="http://127.0.0.1:5000",
                door="10.0.0.1:8802",
                key="le_key",
                kind="llamacpp",
                slots=4,
                context=4096,
            ),
        ),
    )


@pytest.mark.parametrize("reachability", list(Reachability))
def test_gateways_are_told_whose_nodes_agent_is_silent(reachability):
    rows = FleetRows(nodes=(replace(NODE, reachability=reachability),), models=(MODEL,), replicas=(READY,))
    ((replica,),) = [found.replicas for found in routes(rows, {})]
    assert replica.silent is (reachability is Reachability.UNREACHABLE)


@pytest.mark.parametrize("state", [state for state in ReplicaState if state is not ReplicaState.READY])
def test_only_ready_replicas_are_routed_to(state):
    assert route(replace(READY, state=state)).replicas == ()


def test_a_ready_replica_whose_engine_is_being_started_again_is_not_routed_to():
    assert route(replace(READY, shards=(replace(SHARD, endpoint=None),))).replicas == ()


def test_a_replica_stays_in_the_view_whatever_is_not_heard_of_its_node():
    rows = FleetRows(models=(MODEL,), replicas=(READY,))
    (found,) = routes(rows, {})
    assert [replica.id for replica in found.replicas] == ["r1"]
    assert found.replicas[0].place is None


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (route(), "no replica of it has been placed yet"),
        (route(model=replace(MODEL, min=0)), "it starts when it is asked for (min is 0)"),
        (
            route(status=replace(STATUS, parked=Parked(failures=1, reason="not GGUF", since=NOW))),
            "it is parked after 1 failed start: not GGUF",
        ),
        (
            route(status=replace(STATUS, unplaceable="1 node: 1 is full")),
            "it fits on no node now: 1 node: 1 is full",
        ),
        (route(STARTING), "it is starting"),
        (route(STARTING, reports=(report(),)), "it is starting: loading"),
        (route(STARTING, reports=(report(attempt=1),)), "it is starting"),
        (
            route(STARTING, status=replace(STATUS, failures=2, last_failure="out of memory")),
            "it is starting (try 3; the last one failed: out of memory)",
        ),
        (
            route(
                replace(STARTING, state=ReplicaState.FAILED),
                status=replace(STATUS, failures=1, last_failure="out of memory", retry_at=NOW),
            ),
            "its last start failed: out of memory; the next try is at 12:30:00 UTC",
        ),
        (route(replace(READY, state=ReplicaState.DRAINING)), "its last replica is being stopped"),
    ],
)
def test_a_model_nobody_answers_for_says_why(found, text):
    assert found.unavailable == text


def test_revoked_keys_let_nobody_in():
    good = ApiKey(id="lk_a", hash="h", name="n", project="p", created_at=NOW)
    revoked = replace(good, id="lk_b", revoked_at=NOW)
    assert key_entries((good, revoked)) == (KeyEntry(id="lk_a", hash="h", project="p"),)


def test_a_delta_has_what_changed_and_what_went():
    one, two, three = (Route(model=name, role=MODEL.role, created=1) for name in ("a", "b", "c"))
    changed = replace(two, unavailable="because")
    delta = routes_delta((one, two), (changed, three), base=4, version=5)
    assert (delta.base, delta.version, delta.changed, delta.removed) == (4, 5, (changed, three), ("a",))


def test_requests_for_a_model_on_demand_may_be_held_as_long_as_a_start_may_take():
    on_demand = replace(MODEL, min=0)
    assert route(model=on_demand).hold_s == 300.0
    assert route().hold_s is None, "a minimum of 1 is not on demand"
    weights = Weights(path=MODEL.source, format=WeightsFormat.GGUF, size_bytes=70 * 2**30)
    node = replace(NODE, facts=replace(NODE.facts, weights=(weights,)))
    assert routes(FleetRows(models=(on_demand,), nodes=(node,)), {})[0].hold_s == 300.0 + 70 * 20.0


def test_nothing_is_held_where_no_start_can_succeed_or_none_is_needed():
    on_demand = replace(MODEL, min=0)
    parked = replace(STATUS, parked=Parked(failures=1, reason="not GGUF", since=NOW))
    assert route(model=on_demand, status=parked).hold_s is None
    assert route(model=on_demand, status=replace(STATUS, unplaceable="1 node: 1 is full")).hold_s is None
    assert routes(FleetRows(models=(on_demand,), replicas=(READY,)), {})[0].hold_s is None
    changed = replace(on_demand, revision=STATUS.revision + 1)
    assert route(model=changed, status=parked).hold_s == 300.0, "a changed model is tried anew"


def test_a_replica_on_a_lost_node_is_asked_only_where_there_is_no_other():
    lost = replace(NODE, reachability=Reachability.LOST)
    other = replace(READY, id="r2", shards=(replace(SHARD, id="r2.0", allocation=Allocation(node="n2")),))
    nodes = (lost, replace(NODE, id="n2"))
    for replicas, asked in (((READY, other), ["r2"]), ((READY,), ["r1"])):
        (found,) = routes(FleetRows(nodes=nodes, models=(MODEL,), replicas=replicas), {})
        assert [replica.id for replica in found.replicas] == asked
