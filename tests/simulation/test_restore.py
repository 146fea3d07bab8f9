"""A store is lost while much is under way, and restored from a backup that is older than what runs on the nodes."""

import msgspec
import pytest

from llmgw.core import backup
from llmgw.ports import DeleteModel
from llmgw.schema.desired import Mode
from llmgw.schema.errors import Conflict, StoreUnavailable
from llmgw.schema.node import Intent, Reachability
from llmgw.schema.replica import ReplicaState
from llmgw.schema.report import Death
from llmgw.server.restore import Restore, resume
from llmgw.server.services.summary import summary
from llmgw.store.backup import brought_forward
from llmgw.testing.cluster import Cluster


class Lost:
    """A cluster whose control planes and store are gone; its nodes and a backup are left."""

    def __init__(self):
        self.old = Cluster(nodes=3)
        self.backup = None
        self.orders = []

    async def happen(self):
        old = self.old
        await old.run(3)
        for node in old.nodes.values():
            node.break_model("broken", Death(status=1, asked=False, cause="it is not GGUF", heals=False))
        await old.serve("chat", replicas=2)
        await old.serve("broken")
        await old.settle()
        await old.want("node-3", Intent.CORDONED)
        await old.serve("late")
        await old.tick()
        content = await old.memory.dump()
        assert any(one.state is ReplicaState.STARTING for one in (await old.rows()).replicas)
        sealed = backup.seal(content, llmgw="0.1.0", taken_at=old.clock.now(), taken_by="control-1")
        self.backup = backup.read(msgspec.json.encode(sealed))
        # After the backup: one engine dies and is started again, a model is added, and another control plane leads.
        old.nodes["node-1"].kill(old.nodes["node-1"].running()[0].id)
        await old.serve("newer")
        await old.settle()
        old.kill(old.leader())
        old.start("control-2")
        await old.settle()
        old.kill(old.leader())
        for node in old.nodes.values():
            node.note = lambda name, state, why: self.orders.append((name, state.mode, why))

    def reports(self):
        return {name: node.reports() for name, node in self.old.nodes.items()}


@pytest.fixture
async def lost():
    lost = Lost()
    await lost.happen()
    return lost


async def nothing_missing():
    """The first secrets of a cluster are another test's."""


def restoring(cluster):
    return Restore(
        cluster.leader().fleet,
        cluster.clock,
        forward=brought_forward,
        keep=lambda ours, theirs: {},
        first_secrets=nothing_missing,
    )


async def restored(lost):
    """A new cluster with the backup in it, which the nodes find then."""
    new = Cluster(nodes=0)
    await new.run(3)
    # What the lease's thread would do by itself while the restore waits for it.
    new.leader().lease.raise_epoch(lost.backup.content.epoch + 1)
    await new.tick()
    await restoring(new)(lost.backup, actor="lt_root")
    new.nodes = lost.old.nodes
    return new


async def test_what_runs_goes_on_running_and_is_adopted_while_the_restored_cluster_looks_on(lost):
    before, starts = lost.reports(), lost.old.starts()
    new = await restored(lost)
    await new.run(400)
    assert lost.reports() == before
    assert lost.old.starts() == starts
    assert {mode for _, mode, why in lost.orders if why is None} == {Mode.OBSERVE}
    assert len({name for name, _, why in lost.orders if why is None}) == 3
    rows = await new.rows()
    running = {report.id for reports in before.values() for report in reports}
    assert {one.state for one in rows.replicas if one.model in {"chat", "late"}} == {ReplicaState.READY}
    assert {shard.id for one in rows.replicas if one.model != "broken" for shard in one.shards} < running
    assert {node.reachability for node in rows.nodes} == {Reachability.CONNECTED}


async def test_its_epoch_is_above_any_that_a_node_obeyed(lost):
    floor = max(node.epoch for node in lost.old.nodes.values())
    assert floor > lost.backup.content.epoch
    new = await restored(lost)
    await new.run(10)
    assert new.leader().lease.status().epoch > floor


async def test_parked_models_stay_parked_and_cordoned_nodes_cordoned(lost):
    new = await restored(lost)
    await new.run(60)
    rows = await new.rows()
    assert next(one for one in rows.statuses if one.model == "broken").parked is not None
    assert {node.id: node.intent for node in rows.nodes}["node-3"] is Intent.CORDONED


async def test_whoever_takes_over_looks_on_too(lost):
    starts, before = lost.old.starts(), lost.reports()
    new = await restored(lost)
    await new.run(10)
    new.kill(new.leader())
    new.start("control-7")
    await new.run(60)
    assert new.leader().fleet.observing is not None
    assert (lost.old.starts(), lost.reports()) == (starts, before)


async def test_an_operator_resumes_and_only_what_the_backup_does_not_know_is_stopped(lost):
    starts = lost.old.starts()
    new = await restored(lost)
    await new.run(30)
    assert await resume(new.leader().fleet, new.clock, actor="lt_root") is True
    await new.settle()
    assert sorted(new.running()) == ["chat", "late"]
    assert len(new.running()["chat"]) == 2
    assert lost.old.starts() == starts
    assert await resume(new.leader().fleet, new.clock, actor="lt_root") is False


async def test_nodes_that_are_silent_when_an_operator_resumes_are_waited_for_anew(lost):
    new = await restored(lost)
    new.cut_off.add("node-2")
    await new.run(400)
    await resume(new.leader().fleet, new.clock, actor="lt_root")
    await new.run(200)
    assert {node.id: node.reachability for node in (await new.rows()).nodes}["node-2"] is Reachability.UNREACHABLE


async def test_a_replica_whose_engine_is_not_there_does_not_count_as_ready(lost):
    new = await restored(lost)
    await new.run(30)
    victim = next(one for one in (await new.rows()).replicas if one.model == "late")
    node = lost.old.nodes[victim.shards[0].allocation.node]
    node.kill(victim.shards[0].id)
    await new.run(10)
    now = next(one for one in (await new.rows()).replicas if one.id == victim.id)
    assert now.state is ReplicaState.STARTING
    assert now.attempt == victim.attempt
    await resume(new.leader().fleet, new.clock, actor="lt_root")
    await new.settle()
    assert len(new.running()["late"]) == 1


async def test_one_line_says_that_it_looks_on_who_is_missing_and_what_a_resume_stops(lost):
    new = await restored(lost)
    known = {shard.id for one in (await new.rows()).replicas for shard in one.shards}
    new.cut_off.add(next(name for name, found in lost.reports().items() if {one.id for one in found} <= known))
    await new.run(30)
    (alarm,) = summary(new.leader().fleet, version="0.1.0").alarms[:1]
    assert alarm.kind == "observing"
    assert "observing until `llmgw ctl server resume`" in alarm.text
    assert "1 of 3 nodes not heard yet" in alarm.text
    assert "1 engine the backup does not know" in alarm.text
    await resume(new.leader().fleet, new.clock, actor="lt_root")
    assert all(alarm.kind != "observing" for alarm in summary(new.leader().fleet, version="0.1.0").alarms)


async def test_a_cluster_that_is_in_use_is_left_as_it_is(lost):
    used = Cluster(nodes=1)
    await used.run(3)
    await used.serve("mine")
    await used.settle()
    before = await used.memory.dump()
    with pytest.raises(Conflict, match=r"1 node \(node-1\), 1 model \(mine\), 1 replica"):
        await restoring(used)(lost.backup, actor="lt_root")
    assert await used.memory.dump() == before


async def test_a_restore_whose_end_was_not_seen_is_found_done_and_not_done_twice(lost):
    def away():
        new.store.after = lambda: None
        raise StoreUnavailable("away")

    new = Cluster(nodes=0)
    await new.run(3)
    new.leader().lease.raise_epoch(lost.backup.content.epoch + 1)
    await new.tick()
    new.store.after = away
    with pytest.raises(StoreUnavailable):
        await restoring(new)(lost.backup, actor="lt_root")
    await new.run(2)
    assert new.leader().fleet.observing is not None
    with pytest.raises(Conflict, match="3 nodes"):
        await restoring(new)(lost.backup, actor="lt_root")


async def test_an_empty_store_that_nodes_find_first_stops_nothing_and_can_be_restored_then(lost):
    starts, before = lost.old.starts(), lost.reports()
    new = Cluster(nodes=1)
    idle = new.nodes
    await new.run(5)
    new.nodes = {**idle, **lost.old.nodes}
    await new.run(30)
    assert (lost.old.starts(), lost.reports()) == (starts, before)
    (alarm,) = summary(new.leader().fleet, version="0.1.0").alarms
    assert "the store is empty, and nodes run 4 engines it does not know" in alarm.text
    assert len(await new.events("store.lost")) == 1
    new.nodes = lost.old.nodes
    new.leader().lease.raise_epoch(lost.backup.content.epoch + 1)
    await new.tick()
    await restoring(new)(lost.backup, actor="lt_root")
    await new.run(30)
    assert (lost.old.starts(), lost.reports()) == (starts, before)
    assert {one.state for one in (await new.rows()).replicas if one.model == "chat"} == {ReplicaState.READY}
    await resume(new.leader().fleet, new.clock, actor="lt_root")
    await new.settle()
    assert sorted(new.running()) == ["chat", "late"]
    assert lost.old.starts() == starts


async def test_an_operator_who_has_no_backup_resumes_and_starts_from_nothing(lost):
    new = Cluster(nodes=0)
    await new.run(3)
    new.nodes = lost.old.nodes
    await new.run(30)
    assert new.running()
    await resume(new.leader().fleet, new.clock, actor="lt_root")
    await new.settle()
    assert new.running() == {}
    await new.serve("fresh")
    await new.settle()
    assert list(new.running()) == ["fresh"]
    assert new.leader().fleet.observing is None


async def test_a_cluster_whose_last_model_is_removed_is_not_taken_for_a_lost_one():
    cluster = Cluster(nodes=1)
    await cluster.run(3)
    await cluster.serve("chat")
    await cluster.settle()
    cluster.nodes["node-1"].slow_stops = True
    await cluster.leader().fleet.write([DeleteModel(name="chat")])
    await cluster.run(10)
    cluster.kill(cluster.leader())
    cluster.start("control-2")
    await cluster.run(30)
    cluster.nodes["node-1"].finish_stops()
    await cluster.settle()
    assert cluster.running() == {}
    assert cluster.leader().fleet.observing is None
