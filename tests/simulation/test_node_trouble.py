"""Nodes in trouble, in a whole cluster: nothing is replaced too early, twice, or instead of the only healthy one."""

from itertools import pairwise

import pytest

from llmgw.ports import DeleteNode
from llmgw.schema.demand import DemandReport, ReplicaDemand
from llmgw.schema.errors import StoreUnavailable
from llmgw.schema.node import Intent, Node, Reachability, Replacement
from llmgw.schema.replica import ReplicaState, ShardPhase
from llmgw.testing.cluster import Cluster

LOST_S = 300


async def started(**options: object) -> Cluster:
    cluster = Cluster(**options)
    await cluster.run(3)
    return cluster


async def serving(*, nodes: int = 2, replicas: int = 1, cores: float = 5.0, **options: object) -> Cluster:
    """Give a cluster at rest that serves `chat`, one replica a node."""
    cluster = await started(nodes=nodes, **options)
    await cluster.serve("chat", replicas=replicas, cores=cores)
    await cluster.settle()
    return cluster


async def node(cluster: Cluster, name: str) -> Node:
    return next(one for one in (await cluster.rows()).nodes if one.id == name)


def host(cluster: Cluster) -> str:
    """Name the node that runs an engine; there must be just one."""
    (name,) = [one.id for one in cluster.nodes.values() if one.running()]
    return name


def routed(cluster: Cluster) -> list[str]:
    return [replica.id for route in cluster.leader().routes() for replica in route.replicas]


def routed_models(cluster: Cluster) -> set[str]:
    return {route.model for route in cluster.leader().routes() if route.replicas}


def healthy(cluster: Cluster) -> set[str]:
    return {
        report.id.split(".")[0]
        for one in cluster.nodes.values()
        for report in one.running()
        if report.phase is ShardPhase.READY
    }


async def test_a_lost_node_is_replaced_after_its_time_and_not_before():
    cluster = await serving()
    first = host(cluster)
    cluster.cut_off.add(first)
    await cluster.run(LOST_S - 1)
    assert len(cluster.starts()) == 1
    assert (await node(cluster, first)).reachability is Reachability.UNREACHABLE
    await cluster.run(10)
    assert (await node(cluster, first)).reachability is Reachability.LOST
    assert len(cluster.starts()) == 2
    assert routed(cluster) == [cluster.starts()[1][0].split(".")[0]]


async def test_a_model_that_cannot_wait_is_replaced_sooner_and_one_that_waits_for_ever_never():
    cluster = await started(nodes=2)
    await cluster.want("node-2", Intent.CORDONED, "all models are to share one node")
    await cluster.serve("hasty", cores=2.0, lost_after=60)
    await cluster.serve("usual", cores=2.0)
    await cluster.serve("loyal", cores=2.0, lost_after="never")
    await cluster.settle()
    await cluster.want("node-2", Intent.NONE)
    away = "node-1"
    models = {replica.id: replica.model for replica in (await cluster.rows()).replicas}
    assert len(models) == 3
    cluster.cut_off.add(away)

    async def replaced() -> set[str]:
        rows = (await cluster.rows()).replicas
        return {one.model for one in rows if one.id not in models and one.state is ReplicaState.READY}

    await cluster.run(59)
    assert await replaced() == set()
    await cluster.run(15)
    assert await replaced() == {"hasty"}
    assert (await node(cluster, away)).spared == ("loyal", "usual")
    await cluster.run(LOST_S - 60)
    assert await replaced() == {"hasty", "usual"}
    await cluster.run(3600)
    assert await replaced() == {"hasty", "usual"}
    assert "loyal" in routed_models(cluster)
    cluster.cut_off.clear()
    await cluster.settle()
    assert (await node(cluster, away)).spared == ()
    assert {one.model for one in (await cluster.rows()).replicas} == {"hasty", "usual", "loyal"}


async def test_of_a_node_that_comes_back_with_its_engine_the_older_replica_stays():
    cluster = await serving()
    first, (old,) = host(cluster), routed(cluster)
    cluster.cut_off.add(first)
    await cluster.run(LOST_S + 30)
    (new,) = routed(cluster)
    assert healthy(cluster) == {old, new}
    cluster.cut_off.clear()
    await cluster.settle()
    assert routed(cluster) == [old]
    assert healthy(cluster) == {old}
    assert len(cluster.starts()) == 2


async def test_of_a_node_that_comes_back_empty_the_replacement_stays():
    cluster = await serving()
    first, (old,) = host(cluster), routed(cluster)
    cluster.cut_off.add(first)
    await cluster.run(LOST_S + 30)
    (new,) = routed(cluster)
    cluster.nodes[first].reboot()
    cluster.cut_off.clear()
    for _ in range(120):
        await cluster.tick()
        assert new in healthy(cluster)
        assert new in routed(cluster)
    await cluster.settle()
    assert old not in routed(cluster)
    assert healthy(cluster) == {new}


async def test_a_node_that_comes_back_while_its_replacement_starts_keeps_its_replica():
    cluster = await serving()
    first, (old,) = host(cluster), routed(cluster)
    cluster.cut_off.add(first)
    while (await node(cluster, first)).reachability is not Reachability.LOST:
        await cluster.tick()
    cluster.cut_off.clear()
    await cluster.settle()
    assert routed(cluster) == [old]
    assert healthy(cluster) == {old}


async def test_half_of_200_nodes_vanish_and_nothing_is_replaced_and_one_vanishes_and_it_is():
    cluster = await serving(nodes=200, replicas=150, lost_after_s=60.0)
    starts = cluster.starts()
    vanishing = sorted(cluster.nodes)[:100]
    for ten in range(0, 100, 10):
        cluster.cut_off.update(vanishing[ten : ten + 10])
        await cluster.run(1)
    routes = routed(cluster)
    await cluster.run(150)
    assert cluster.starts() == starts
    assert routed(cluster) == routes
    assert len(await cluster.events("fleet.replacement_held")) == 1
    assert await cluster.events("node.lost") == []
    states = [one.replacement for one in (await cluster.rows()).nodes]
    assert states.count(Replacement.HELD) == 100

    cluster.cut_off.clear()
    await cluster.run(30)
    assert cluster.starts() == starts
    assert routed(cluster) == routes
    assert len(await cluster.events("fleet.replacement_resumed")) == 1

    one = next(name for name in vanishing if cluster.nodes[name].running())
    cluster.cut_off.add(one)
    await cluster.run(59)
    assert cluster.starts() == starts
    await cluster.run(10)
    assert [event.node for event in await cluster.events("node.lost")] == [one]
    assert len(cluster.starts()) == len(starts) + 1
    assert len(await cluster.events("fleet.replacement_held")) == 1


async def test_nodes_lost_one_after_another_are_replaced_at_most_one_in_ten_seconds():
    cluster = await serving(nodes=12, replicas=3)
    names = [one.id for one in cluster.nodes.values() if one.running()]
    for name in names:
        cluster.cut_off.add(name)
        await cluster.run(1)
    await cluster.run(LOST_S + 60)
    lost = [event.at for event in await cluster.events("node.lost")]
    assert len(lost) == 3
    assert all((later - earlier).total_seconds() >= 10 for earlier, later in pairwise(lost))


async def test_a_node_whose_agent_is_frozen_while_its_engines_answer_keeps_its_traffic_and_is_not_lost():
    cluster = await serving()
    first, routes = host(cluster), routed(cluster)
    cluster.frozen.add(first)
    for second in range(LOST_S + 60):
        age = second % 20.0
        report = DemandReport(
            gateway="g", seq=second, replicas={routes[0]: ReplicaDemand(in_flight=1, last_answered_age_s=age)}
        )
        cluster.leader().board.report(report)
        await cluster.run(1)
    stored = await node(cluster, first)
    assert (stored.reachability, stored.replacement) == (Reachability.UNREACHABLE, Replacement.SERVING)
    assert routed(cluster) == routes
    assert len(cluster.starts()) == 1
    assert len(await cluster.events("node.serves_unreported")) == 1

    await cluster.run(60)  # its engines stop answering
    assert (await node(cluster, first)).reachability is Reachability.LOST
    assert len(cluster.starts()) == 2


async def test_a_control_plane_that_is_stuck_for_minutes_declares_no_node_silent_and_keeps_its_lease():
    cluster = await serving(nodes=4, replicas=2)
    plane, starts = cluster.leader(), cluster.starts()
    epoch = plane.lease.status().epoch
    for _ in range(3):
        plane.busy = True
        await cluster.run(200)
        plane.busy = False
        await cluster.run(1)
    await cluster.run(30)
    assert plane.lease.status().epoch == epoch
    assert cluster.starts() == starts
    assert await cluster.events("node.unreachable") == []


async def test_a_store_that_takes_two_seconds_for_each_transaction_declares_no_node_silent():
    cluster = await serving(nodes=4, replicas=2)
    plane, epoch = cluster.leader(), cluster.leader().lease.status().epoch
    cluster.slow_store_s = 2.0
    for number in range(20):
        await cluster.serve(f"m{number}", cores=0.5)
        await cluster.run(5)
    assert await cluster.events("node.unreachable") == []
    assert plane.lease.status().epoch == epoch
    assert len(cluster.starts()) == 22


async def test_a_store_that_is_away_for_minutes_costs_no_node():
    cluster = await serving(nodes=4, replicas=2)
    starts = cluster.starts()

    def away() -> None:
        raise StoreUnavailable("away")

    cluster.store.before = away
    await cluster.run(LOST_S + 60)
    cluster.store.before = lambda: None
    await cluster.settle()
    assert cluster.starts() == starts
    assert await cluster.events("node.unreachable") == []


async def test_a_node_that_flaps_is_an_alarm_and_takes_nothing_new_for_longer_and_longer():
    cluster = await started(nodes=1)
    for _ in range(3):
        cluster.cut_off.add("node-1")
        await cluster.run(20)
        cluster.cut_off.clear()
        await cluster.run(5)
    assert [event.node for event in await cluster.events("node.flapping")] == ["node-1"]
    await cluster.serve("chat")
    await cluster.run(110)
    assert cluster.starts() == []
    assert "settling after a silence" in (await cluster.rows()).statuses[0].unplaceable
    await cluster.run(15)
    assert len(cluster.starts()) == 1


async def test_a_cordon_survives_reconnections_silence_and_restarts_of_agent_and_server():
    cluster = await serving()
    first = host(cluster)
    await cluster.want(first, Intent.CORDONED, "bad fan")
    cluster.disconnect(first)
    await cluster.run(5)
    cluster.stop(cluster.leader())
    cluster.start()
    await cluster.run(10)
    cluster.cut_off.add(first)
    await cluster.run(LOST_S + 30)
    cluster.cut_off.clear()
    await cluster.run(5)
    cluster.kill(cluster.leader())
    cluster.start()
    await cluster.run(30)
    stored = await node(cluster, first)
    assert (stored.intent, stored.intent_reason, stored.reachability) == (
        Intent.CORDONED,
        "bad fan",
        Reachability.CONNECTED,
    )


async def test_a_drain_replaces_first_lets_requests_end_and_leaves_the_node_cordoned_as_drained():
    cluster = await serving(nodes=3, replicas=2)
    first = next(one.id for one in cluster.nodes.values() if one.running())
    cluster.nodes[first].slow_stops = True
    await cluster.want(first, Intent.DRAINING)
    for _ in range(60):
        await cluster.tick()
        assert len(routed(cluster)) >= 2
    assert (await node(cluster, first)).intent is Intent.DRAINING  # requests are still open there
    cluster.kill(cluster.leader())
    cluster.start()
    await cluster.run(10)
    assert (await node(cluster, first)).intent is Intent.DRAINING
    cluster.nodes[first].finish_stops()
    await cluster.settle()
    stored = await node(cluster, first)
    assert (stored.intent, stored.intent_reason) == (Intent.CORDONED, "drained")
    assert cluster.nodes[first].running() == ()
    assert len(cluster.starts()) == 3


async def test_a_drain_without_room_waits_and_serves_on():
    cluster = await serving(nodes=1)
    await cluster.want("node-1", Intent.DRAINING)
    await cluster.run(60)
    assert len(routed(cluster)) == 1
    assert (await node(cluster, "node-1")).intent is Intent.DRAINING
    await cluster.want("node-1", Intent.NONE)
    await cluster.settle()
    assert len(cluster.starts()) == 1


async def test_a_removed_node_frees_what_it_held_and_its_engines_end_when_its_agent_comes_back():
    cluster = await serving()
    first = host(cluster)
    cluster.cut_off.add(first)
    await cluster.run(20)
    await cluster.leader().fleet.write((DeleteNode(id=first),))
    await cluster.leader().fleet.write((DeleteNode(id=first),))
    await cluster.settle()
    (replica,) = (await cluster.rows()).replicas
    assert replica.shards[0].allocation.node != first
    assert cluster.nodes[first].running()
    cluster.cut_off.clear()
    await cluster.settle()
    assert cluster.nodes[first].running() == ()
    assert routed(cluster) == [replica.id]


@pytest.mark.parametrize("seed", range(25))
async def test_no_series_of_faults_makes_us_stop_the_only_healthy_replica(seed: int):
    cluster = await started(nodes=5, seed=seed)
    chance = cluster.random
    await cluster.serve("chat", replicas=2, cores=3.0)
    await cluster.want("node-5", Intent.CORDONED, "kept")
    await cluster.settle()
    for _ in range(25):
        harm(cluster)
        for _ in range(round(chance.choice([1, 5, 20, 120]) / 0.5)):
            before = healthy(cluster)
            await cluster.tick()
            assert healthy(cluster) or not before, "the last healthy engine was stopped by an order of ours"
    cluster.cut_off.clear()
    cluster.frozen.clear()
    cluster.heartbeat_loss = cluster.slow_store_s = 0.0
    if not cluster.planes:
        cluster.start()
    for plane in cluster.planes:
        plane.busy = False
    await cluster.run(60)
    await cluster.settle(longest_s=2400)
    rows = await cluster.rows()
    assert [replica.state for replica in rows.replicas] == [ReplicaState.READY] * 2
    assert sorted(cluster.running()["chat"]) == sorted(f"{replica.id}.0" for replica in rows.replicas)
    (kept,) = [one for one in rows.nodes if one.id == "node-5"]
    assert (kept.intent, kept.intent_reason) == (Intent.CORDONED, "kept")


def harm(cluster: Cluster) -> None:
    chance = cluster.random
    one = cluster.nodes[chance.choice(sorted(cluster.nodes))]
    match chance.randrange(10):
        case 0 | 1:
            cluster.cut_off ^= {one.id}
        case 2:
            cluster.frozen ^= {one.id}
        case 3:
            cluster.heartbeat_loss = chance.choice([0.0, 0.5, 0.9])
        case 4:
            cluster.say_hello_again(one.id)
        case 5:
            cluster.slow_store_s = chance.choice([0.0, 2.0])
        case 6 if cluster.planes:
            cluster.planes[0].busy = not cluster.planes[0].busy
        case 7 if cluster.planes:
            cluster.kill(cluster.planes[0])
        case 8 if len(cluster.planes) < 2:
            cluster.start(f"control-{len(cluster.planes) + 1}")
        case 9 if len(healthy(cluster)) > 1 and one.running():
            one.reboot()
            cluster.disconnect(one.id)
        case _:
            cluster.disconnect(one.id)
