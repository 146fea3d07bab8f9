import io
import random

import msgspec
import pytest

from llmgw.core.planner import plan
from llmgw.schema.model import Profile
from llmgw.schema.node import Intent, Reachability
from llmgw.schema.replica import ReplicaState
from llmgw.server.plan_messages import Ask, Changed, Gone, Parts, length, pack, read
from llmgw.server.plan_news import CHUNK, Told
from llmgw.testing.factories import (
    carried_out,
    make_devices,
    make_model,
    make_node,
    make_replica,
    make_report,
    make_seen,
    make_snapshot,
    make_want,
)


class Worker:
    """What the worker knows after reading the wire."""

    def __init__(self):
        self.parts = Parts()
        self.told = Told()

    def hear(self, snapshot):
        """Tell it the news; give how many messages that took."""
        wire = b"".join(pack(message) for message in self.told.news(snapshot))
        stream, count = io.BytesIO(wire), 0
        while (message := read(stream)) is not None:
            self.parts.take_in(message)
            count += 1
        return count

    def plan(self, snapshot):
        return plan(self.parts.snapshot(Ask(now=snapshot.now, doubtful=snapshot.doubtful)))


def test_a_fleet_is_told_once_and_then_only_what_differs():
    snapshot, worker = make_snapshot([make_node("n1"), make_node("n2")], [make_model()]), Worker()
    assert worker.told.differs(snapshot)
    worker.hear(snapshot)
    assert not worker.told.differs(snapshot)
    assert worker.hear(snapshot) == 0
    cordoned = make_seen(make_node("n2", intent=Intent.CORDONED))
    changed = msgspec.structs.replace(snapshot, nodes=(snapshot.nodes[0], cordoned))
    assert worker.told.differs(changed)
    (news,) = list(worker.told.news(changed))
    assert news == Changed(nodes=(cordoned,))


def test_new_reports_of_a_node_that_was_heard_are_no_news():
    node, replica = make_node(), make_replica()
    worker = Worker()
    worker.hear(make_snapshot([make_seen(node)], [make_model()], [replica]))
    again = make_snapshot([make_seen(node, reports=(make_report(replica.shards[0]),))], [make_model()], [replica])
    assert not worker.told.differs(again)
    unheard = make_snapshot([make_seen(node, reports=None)], [make_model()], [replica])
    assert worker.told.differs(unheard)


def test_what_is_gone_is_told():
    worker, replica = Worker(), make_replica()
    worker.hear(make_snapshot([make_node("n1"), make_node("n2")], [make_model()], [replica]))
    (news,) = list(worker.told.news(make_snapshot([make_node("n1")][:0], [], [])))
    assert news == Gone(nodes=news.nodes, models=("demo",), replicas=(replica.id,))
    assert set(news.nodes) == {"n1", "n2"}


def test_doubt_about_a_replica_is_a_difference():
    worker, snapshot = Worker(), make_snapshot([make_node()], [make_model()], [make_replica("ra")])
    worker.hear(snapshot)
    assert worker.told.differs(msgspec.structs.replace(snapshot, doubtful=frozenset({"ra"})))


def test_engine_keys_never_leave_the_control_plane():
    replica = make_replica()
    assert replica.shards[0].key.encode() not in pack(Changed(replicas=(replica,)))


def test_a_large_fleet_is_told_in_pieces():
    snapshot = make_snapshot([make_node(f"n{number}") for number in range(3 * CHUNK + 1)], [])
    assert Worker().hear(snapshot) == 4


def test_a_stream_that_ends_or_is_cut_is_an_end():
    whole = pack(Gone(nodes=("n1",)))
    assert read(io.BytesIO(b"")) is None
    assert read(io.BytesIO(whole[:2])) is None
    assert read(io.BytesIO(whole[:-1])) is None
    with pytest.raises(ValueError, match="frame of"):
        length(b"\xff\xff\xff\xff")


@pytest.mark.parametrize("seed", range(20))
def test_the_worker_plans_as_the_control_plane_itself_would_whatever_changes(seed):
    rng, worker = random.Random(seed), Worker()
    nodes = {f"n{number}": make_node(f"n{number}", devices=make_devices(4)) for number in range(6)}
    models = {f"m{number}": _model(f"m{number}", rng) for number in range(4)}
    snapshot = make_snapshot(nodes.values(), models.values())
    for step in range(12):
        worker.hear(snapshot)
        made = plan(snapshot)
        assert worker.plan(snapshot) == made
        snapshot = carried_out(snapshot, made, prefix=f"r{step}x")
        snapshot = _changed(snapshot, rng)


def _model(name, rng):
    profile = Profile(devices_per_node=rng.randrange(1, 4), device_class="h100-80gb")
    return make_want(make_model(name, min=rng.randrange(0, 3), max=3, profile=profile))


def _changed(snapshot, rng):
    nodes = list(snapshot.nodes)
    at = rng.randrange(len(nodes))
    reachability = rng.choice(list(Reachability))
    nodes[at] = make_seen(msgspec.structs.replace(nodes[at].node, reachability=reachability))
    if rng.random() < 0.2 and len(nodes) > 1:
        del nodes[at]
    models = [_model(seen.model.name, rng) if rng.random() < 0.2 else seen for seen in snapshot.models]
    replicas = [
        msgspec.structs.replace(replica, state=rng.choice([ReplicaState.READY, replica.state]))
        for replica in snapshot.replicas
        if rng.random() > 0.1
    ]
    return make_snapshot(nodes, models, replicas)
