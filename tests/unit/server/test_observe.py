from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from llmgw.ports import FleetRows
from llmgw.schema.model import Model, ModelStatus
from llmgw.schema.node import Node, NodeState, Reachability
from llmgw.schema.plan import Claim
from llmgw.schema.replica import ShardPhase
from llmgw.schema.weights import WatchedPath, Weights, WeightsFormat
from llmgw.server.observe import Observer, Resolved, Sources
from llmgw.testing.factories import make_replica, make_report
from llmgw.testing.fake_node import fake_facts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WHOLE = Weights(path="/m.gguf", format=WeightsFormat.GGUF, size_bytes=10)
BROKEN = replace(WHOLE, problem="is not GGUF")
MODEL = Model(name="chat", source="/m.gguf", created_at=NOW)


class Engine:
    """Counts how often it is asked, and with what."""

    def __init__(self):
        self.asked = []

    def __call__(self, model, weights, cores_usable):
        self.asked.append((weights, cores_usable))
        return Resolved(profile=replace(model.profile, context=4096), claim=Claim(cores=cores_usable))


def node(name, *, cores=8.0, **facts):
    return Node(id=name, facts=replace(fake_facts(name, cores=cores), **facts), registered_at=NOW)


def rows(*nodes, models=(MODEL,)):
    return FleetRows(nodes=nodes, models=models)


def test_models_carry_their_profile_resolved_and_a_status_even_when_none_is_stored():
    snapshot = Observer(Engine()).snapshot(rows(node("n1")), reports={}, now=NOW)
    (model,) = snapshot.models
    assert model.model.profile.context == 4096
    assert model.status == ModelStatus(model="chat", revision=1)
    assert model.claim == Claim(cores=8.0)


def test_nodes_not_heard_have_no_reports_rather_than_none_running():
    snapshot = Observer(Engine()).snapshot(rows(node("n1"), node("n2")), reports={"n2": ()}, now=NOW)
    assert [seen.reports for seen in snapshot.nodes] == [None, ()]
    assert [seen.state for seen in snapshot.nodes] == [NodeState.READY, NodeState.READY]


def test_an_engine_is_asked_again_only_when_what_it_goes_by_changed():
    engine = Engine()
    observer = Observer(engine)
    for _ in range(3):
        observer.snapshot(rows(node("n1")), reports={}, now=NOW)
    assert len(engine.asked) == 1
    observer.snapshot(rows(node("n1", weights=(WHOLE,))), reports={}, now=NOW)
    assert engine.asked[1:] == [(WHOLE, 8.0)]


def test_a_claim_goes_by_the_smallest_node_that_has_the_weights():
    engine = Engine()
    small, large = node("n1", cores=2.0), node("n2", cores=16.0, weights=(WHOLE,))
    Observer(engine).snapshot(rows(small, large), reports={}, now=NOW)
    assert engine.asked == [(WHOLE, 16.0)]


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        ([], None),
        ([{"weights": (BROKEN,)}], BROKEN),
        ([{"weights": (BROKEN,)}, {"weights": (WHOLE,)}], WHOLE),
        ([{"watched": (WatchedPath(path="/m.gguf", present=True, weights=WHOLE),)}], WHOLE),
        ([{"weights": (replace(WHOLE, path="/other.gguf"),)}], None),
    ],
)
def test_weights_match_by_exact_path_and_whole_ones_come_first(seen, found):
    nodes = tuple(node(f"n{number}", **facts) for number, facts in enumerate(seen))
    assert Sources(nodes).weights("/m.gguf") == found


def test_a_node_settles_a_while_after_a_silence():
    away = NOW - timedelta(seconds=20)
    back = replace(node("n1"), reachability_since=NOW, silences=(away,))
    observer = Observer(Engine())
    assert observer.snapshot(rows(back), reports={}, now=NOW + timedelta(seconds=29)).nodes[0].settling
    assert not observer.snapshot(rows(back), reports={}, now=NOW + timedelta(seconds=30)).nodes[0].settling


@pytest.mark.parametrize(
    ("reachability", "reported", "doubtful"),
    [
        (Reachability.CONNECTED, [(1, ShardPhase.READY)], False),
        (Reachability.CONNECTED, [(1, ShardPhase.STARTING)], True),
        (Reachability.CONNECTED, [(2, ShardPhase.READY)], True),
        (Reachability.CONNECTED, [], True),
        (Reachability.UNREACHABLE, [(1, ShardPhase.READY)], True),
    ],
    ids=["said to be ready", "starting", "of another attempt", "not there", "said long ago"],
)
def test_a_ready_replica_is_doubtful_unless_its_agent_says_so_now(reachability, reported, doubtful):
    replica = make_replica("r1")
    reports = tuple(make_report(replica.shards[0], attempt=attempt, phase=phase) for attempt, phase in reported)
    stored = replace(rows(replace(node("n1"), reachability=reachability)), replicas=(replica,))
    snapshot = Observer(Engine()).snapshot(stored, reports={"n1": reports}, now=NOW)
    assert snapshot.doubtful == ({"r1"} if doubtful else frozenset())
