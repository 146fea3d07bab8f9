import random

import pytest
from msgspec.structs import replace

from llmgw.core.parking import BackoffPolicy
from llmgw.core.planner import plan
from llmgw.ports import FleetRows
from llmgw.schema.model import Model, ModelStatus, Profile
from llmgw.schema.replica import ReplicaState, ShardPhase
from llmgw.server.execute import Names
from llmgw.server.fold import fold
from llmgw.server.live import Live
from llmgw.server.observe import Observer
from llmgw.server.recall import Recall
from llmgw.server.registration import Silence
from llmgw.server.turn import Heard, Rules, decide
from llmgw.testing.cluster import resolved
from llmgw.testing.factories import NOW, make_death, make_model, make_node, make_replica, make_report
from llmgw.testing.fake_node import fake_facts


def rules():
    numbers = iter(range(10_000))
    return Rules(
        planner=plan,
        policy=BackoffPolicy(base_s=2.0, max_s=60.0, park_after=5),
        silence=Silence(unreachable_after_s=15.0, lost_after_s=300.0, leading_since=0.0),
        names=Names(replica=lambda: f"r{next(numbers)}", engine_key=lambda: "k"),
    )


def said(rows, node, chance):
    """What the node's agent says of the shards placed there: most is well, now and then an engine died."""
    found = []
    for replica in rows.replicas:
        for shard in replica.shards:
            if shard.allocation.node != node or replica.state is ReplicaState.DRAINING:
                continue
            died = chance.random() < 0.1
            phase = ShardPhase.DEAD if died else ShardPhase.READY
            death = make_death() if died else None
            report = make_report(shard, model=replica.model, attempt=replica.attempt, phase=phase, death=death)
            found.append(report)
    return tuple(found)


@pytest.mark.parametrize("seed", range(15))
def test_turns_that_remember_decide_as_turns_that_do_not(seed):
    chance = random.Random(seed)
    models = [Model(name=f"m{n}", source="hf:o/m@r", profile=Profile(cores=1.0), created_at=NOW) for n in range(3)]
    statuses = tuple(ModelStatus(model=model.name) for model in models)
    with_memory = without = FleetRows(models=tuple(models), statuses=statuses)
    recall, remembering, forgetting = Recall(), rules(), rules()
    observer = Observer(resolved)
    reports = {"n1": (), "n2": ()}
    for second in range(0, 1200, 60):
        if chance.random() < 0.5:
            node = chance.choice(["n1", "n2"])
            reports[node] = said(with_memory, node, chance)
        if chance.random() < 0.2:
            at = chance.randrange(len(models))
            models[at] = replace(models[at], min=chance.randrange(3), max=3, revision=models[at].revision + 1)
            with_memory = replace(with_memory, models=tuple(models))
            without = replace(without, models=tuple(models))
        live = tuple(
            Live(
                node=n,
                stream=1,
                facts=fake_facts(n),
                reports=reports[n],
                generation=99,
                connected=True,
                heard_at=second,
            )
            for n in reports
        )
        heard = Heard(live=live, now=NOW.replace(minute=second // 60 % 60), hearing=float(second))
        one = decide(with_memory, heard, remembering, observer, recall)
        other = decide(without, heard, forgetting, Observer(resolved))
        assert one == other
        with_memory, without = fold(with_memory, one.writes), fold(without, other.writes)


def test_only_a_proven_ready_replica_rests():
    recall = Recall()
    for replica in (make_replica("ra", state=ReplicaState.STARTING), make_replica("rb")):
        recall.note_rest(replica, (replica,))
        assert not recall.rests(replica, (replica,))
    proven = replace(make_replica("rc"), proven=True)
    recall.note_rest(proven, (proven,))
    assert recall.rests(proven, (proven,))
    assert not recall.rests(proven, (replace(proven),))


def test_a_set_is_made_anew_when_anything_in_it_is_another_object():
    recall, replica, model = Recall(), make_replica(), make_model()
    rows = FleetRows(nodes=(make_node(),), replicas=(replica,))
    first = recall.node_sets(rows, {"demo": model}, ())
    assert recall.node_sets(rows, {"demo": model}, ())["n1"] is first["n1"]
    assert recall.node_sets(rows, {"demo": replace(model, revision=2)}, ())["n1"] is not first["n1"]
    again = recall.node_sets(replace(rows, replicas=(replace(replica, attempt=2),)), {"demo": model}, ())
    assert again["n1"].digest != first["n1"].digest
    assert recall.node_sets(rows, {"demo": model}, ("/m",))["n1"].digest != first["n1"].digest
