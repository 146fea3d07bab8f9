"""A whole cluster in one process: whatever goes wrong, it comes to rest with exactly what was asked for."""

from collections import Counter

import pytest
from msgspec.structs import replace

from llmgw.ports import DeleteModel
from llmgw.schema.errors import Fenced, NoLeader, StoreUnavailable
from llmgw.schema.node import Reachability
from llmgw.schema.replica import ReplicaState
from llmgw.schema.report import Death
from llmgw.schema.view import Route
from llmgw.testing.cluster import Cluster, Crash


async def started(**options: object) -> Cluster:
    cluster = Cluster(**options)
    await cluster.run(3)
    return cluster


async def assert_serves(cluster: Cluster, model: str, replicas: int = 1) -> None:
    rows = await cluster.rows()
    ready = [replica for replica in rows.replicas if replica.model == model]
    assert [replica.state for replica in ready] == [ReplicaState.READY] * replicas
    assert sorted(cluster.running().get(model, ())) == sorted(f"{replica.id}.0" for replica in ready)
    route = next(route for route in cluster.leader().routes() if route.model == model)
    assert len(route.replicas) == replicas


async def test_a_served_model_runs_once_and_is_routed_to():
    cluster = await started()
    await cluster.serve("chat")
    await cluster.settle()
    await assert_serves(cluster, "chat")
    assert Counter(cluster.starts()) == {(cluster.running()["chat"][0], 1): 1}


async def test_replicas_spread_over_nodes_by_room():
    cluster = await started(nodes=3)
    await cluster.serve("chat", replicas=3, cores=8.0)
    await cluster.settle()
    await assert_serves(cluster, "chat", replicas=3)
    assert all(len(node.running()) == 1 for node in cluster.nodes.values())


async def test_a_fleet_at_rest_writes_nothing():
    cluster = await started(nodes=3)
    await cluster.serve("chat", replicas=2)
    await cluster.settle()
    await cluster.run(60)  # until the starts count as good
    applied = cluster.store.applied
    await cluster.run(60)
    assert cluster.store.applied == applied


async def test_a_restarted_server_adopts_what_runs_and_writes_nothing():
    cluster = await started(nodes=2)
    await cluster.serve("chat", replicas=2)
    await cluster.settle()
    applied, starts = cluster.store.applied, cluster.starts()
    cluster.stop(cluster.leader())
    cluster.start()
    await cluster.run(30)
    await assert_serves(cluster, "chat", replicas=2)
    assert cluster.starts() == starts
    assert cluster.store.applied == applied


async def test_routes_do_not_flap_while_a_new_leader_waits_for_its_agents():
    cluster = await started(nodes=2)
    await cluster.serve("chat", replicas=2)
    await cluster.settle()
    before = cluster.leader().routes()
    cluster.stop(cluster.leader())
    cluster.cut_off.update(cluster.nodes)
    plane = cluster.start()
    for _ in range(20):
        await cluster.tick()
        if plane.fleet.loaded:
            assert plane.routes() == before
    assert plane.fleet.loaded
    cluster.cut_off.clear()
    await cluster.settle()
    assert plane.routes() == before


async def test_a_standby_leads_after_a_crash_and_starts_nothing_again():
    cluster = await started(nodes=2)
    await cluster.serve("chat", replicas=2)
    await cluster.settle()
    starts = cluster.starts()
    cluster.start("control-2")
    await cluster.run(2)
    cluster.kill(cluster.leader())
    await cluster.run(10)
    assert cluster.leader().lease.status().leader_name == "control-2"
    await assert_serves(cluster, "chat", replicas=2)
    assert cluster.starts() == starts


async def test_the_deposed_leader_writes_and_orders_nothing():
    cluster = await started()
    await cluster.serve("chat")
    await cluster.settle()
    old = cluster.leader()
    cluster.planes.remove(old)  # frozen: it does nothing, and nobody told it that its time is over
    cluster.start("control-2")
    await cluster.run(10)
    assert not old.lease.is_leader()
    with pytest.raises((NoLeader, StoreUnavailable)):
        await old.fleet.write((DeleteModel(name="chat"),))
    fence = cluster.leader().lease.fence()
    assert fence is not None
    node = cluster.nodes["node-1"]
    assert (node.epoch, node.holder) == (fence.epoch, fence.holder)


async def test_a_leader_that_wakes_up_with_a_stale_fence_is_fenced_by_the_store():
    cluster = await started()
    await cluster.serve("chat")
    await cluster.settle()
    old = cluster.leader()
    stale = old.lease.fence()
    cluster.planes.remove(old)
    cluster.start("control-2")
    await cluster.run(10)
    with pytest.raises(Fenced):
        await cluster.memory.leader(stale).apply((DeleteModel(name="chat"),))
    await assert_serves(cluster, "chat")


async def test_a_dead_engine_is_replaced_by_a_new_attempt_of_the_same_replica():
    cluster = await started()
    await cluster.serve("chat")
    await cluster.settle()
    (shard,) = cluster.running()["chat"]
    cluster.nodes["node-1"].kill(shard)
    await cluster.settle()
    await assert_serves(cluster, "chat")
    assert cluster.starts() == [(shard, 1), (shard, 2)]
    (replica,) = (await cluster.rows()).replicas
    assert replica.restart_count == 1
    assert "killed by signal 9" in replica.restarts[0].reason


async def test_a_model_that_never_starts_is_parked_and_tried_no_more():
    cluster = await started()
    cluster.nodes["node-1"].break_model("chat", Death(status=1, asked=False, cause="no such architecture"))
    await cluster.serve("chat")
    await cluster.settle()
    (status,) = (await cluster.rows()).statuses
    assert status.parked is not None
    assert status.parked.failures == 5
    assert len(cluster.starts()) == 5
    (route,) = cluster.leader().routes()
    assert route.unavailable == "it is parked after 5 failed starts: no such architecture"


async def test_a_removed_model_stops_and_its_rows_go_once_its_engines_have_ended():
    cluster = await started()
    await cluster.serve("chat")
    await cluster.settle()
    node = cluster.nodes["node-1"]
    node.slow_stops = True
    await cluster.leader().fleet.write((DeleteModel(name="chat"),))
    await cluster.run(20)
    rows = await cluster.rows()
    assert [replica.state for replica in rows.replicas] == [ReplicaState.DRAINING]
    assert cluster.leader().routes() == ()
    node.finish_stops()
    await cluster.settle()
    assert (await cluster.rows()).replicas == ()
    assert cluster.running() == {}


async def test_a_row_stays_while_the_node_that_may_still_run_it_cannot_be_asked():
    cluster = await started()
    await cluster.serve("chat")
    await cluster.settle()
    cluster.cut_off.add("node-1")
    cluster.disconnect("node-1")
    await cluster.leader().fleet.write((DeleteModel(name="chat"),))
    await cluster.run(60)
    assert [replica.state for replica in (await cluster.rows()).replicas] == [ReplicaState.DRAINING]
    cluster.cut_off.clear()
    await cluster.settle()
    assert (await cluster.rows()).replicas == ()
    assert cluster.running() == {}


async def test_an_unreachable_node_keeps_its_traffic_and_comes_back_unchanged():
    cluster = await started(nodes=2)
    await cluster.serve("chat", replicas=2)
    await cluster.settle()
    routes, starts = cluster.leader().routes(), cluster.starts()
    cluster.cut_off.add("node-1")
    await cluster.run(60)
    states = {node.id: node.reachability for node in (await cluster.rows()).nodes}
    assert states == {"node-1": Reachability.UNREACHABLE, "node-2": Reachability.CONNECTED}
    assert heard(cluster.leader().routes()) == heard(routes)
    cluster.cut_off.clear()
    await cluster.settle()
    states = {node.id: node.reachability for node in (await cluster.rows()).nodes}
    assert states["node-1"] is Reachability.CONNECTED
    assert cluster.starts() == starts


def heard(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """Give routes without the mark that an agent is silent: it has gateways ask, and takes no traffic."""
    return tuple(
        replace(route, replicas=tuple(replace(replica, silent=False) for replica in route.replicas)) for route in routes
    )


async def test_a_store_that_lost_its_epochs_cannot_order_agents_about_with_old_numbers():
    cluster = await started()
    await cluster.serve("chat")
    await cluster.settle()
    node = cluster.nodes["node-1"]
    node.epoch, node.holder, node.generation = 17, "someone-else", 99
    cluster.disconnect("node-1")
    await cluster.settle()
    await assert_serves(cluster, "chat")
    fence = cluster.leader().lease.fence()
    assert fence is not None
    assert fence.epoch > 17
    assert (node.epoch, node.holder) == (fence.epoch, fence.holder)
    assert node.generation > 99


async def test_a_store_that_does_not_answer_stops_orders_and_nothing_else():
    cluster = await started()
    await cluster.serve("chat")
    await cluster.settle()
    starts = cluster.starts()
    cluster.memory.away = True
    await cluster.run(30)
    assert not any(plane.lease.is_leader() for plane in cluster.planes)
    assert cluster.starts() == starts
    assert len(cluster.running()["chat"]) == 1
    cluster.memory.away = False
    await cluster.settle()
    await assert_serves(cluster, "chat")
    assert cluster.starts() == starts


async def test_an_answer_that_never_came_back_is_read_again_before_anything_is_decided():
    cluster = await started(nodes=2)
    lost = iter([True])

    def lose() -> None:
        if next(lost, False):
            raise StoreUnavailable("the answer was lost")

    cluster.store.after = lose
    with pytest.raises(StoreUnavailable):
        await cluster.serve("chat", replicas=2)
    await cluster.settle()
    await assert_serves(cluster, "chat", replicas=2)
    assert len(cluster.starts()) == 2


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("count", range(6))
async def test_a_crash_at_any_transaction_converges_without_a_second_copy(moment: str, count: int):
    cluster = await started(nodes=2)
    await cluster.serve("chat", replicas=2, cores=6.0)
    left = iter(range(count))

    def crash() -> None:
        if next(left, None) is None:
            setattr(cluster.store, moment, lambda: None)
            raise Crash

    setattr(cluster.store, moment, crash)
    await cluster.run(20)
    if not cluster.planes:
        cluster.start()
    await cluster.run(10)
    await cluster.settle()
    await assert_serves(cluster, "chat", replicas=2)
    assert max(Counter(cluster.starts()).values()) == 1
    assert len({shard for shard, _ in cluster.starts()}) == 2


@pytest.mark.parametrize("seed", range(40))
async def test_any_series_of_faults_ends_with_exactly_what_was_asked_for(seed: int):
    cluster = await started(nodes=3, seed=seed)
    chance = cluster.random
    await cluster.serve("chat", replicas=3, cores=3.0)
    await cluster.serve("embed", replicas=1, cores=2.0)
    for _ in range(40):
        _do_harm(cluster)
        await cluster.run(chance.choice([0.5, 1, 2, 7]))
        assert_no_second_copy(cluster)
        assert_epochs_never_go_back(cluster)
    heal(cluster)
    await cluster.run(20)
    await cluster.settle()
    await assert_serves(cluster, "chat", replicas=3)
    await assert_serves(cluster, "embed")


def _do_harm(cluster: Cluster) -> None:
    chance = cluster.random
    node = cluster.nodes[chance.choice(sorted(cluster.nodes))]
    match chance.randrange(8):
        case 0:
            cluster.disconnect(node.id)
        case 1:
            cluster.cut_off ^= {node.id}
        case 2 if cluster.planes:
            cluster.kill(chance.choice(cluster.planes))
        case 3 if len(cluster.planes) < 2:
            cluster.start(f"control-{len(cluster.planes) + 1}")
        case 4:
            running = [report.id for report in node.running()]
            if running:
                node.kill(chance.choice(running))
        case 5:
            cluster.memory.away = not cluster.memory.away
        case 6:
            _crash_soon(cluster, chance.choice(["before", "after"]))
        case 7 if cluster.planes:
            cluster.stop(cluster.planes[0])
        case _:
            pass


def _crash_soon(cluster: Cluster, moment: str) -> None:
    def crash() -> None:
        setattr(cluster.store, moment, lambda: None)
        raise Crash

    setattr(cluster.store, moment, crash)


def heal(cluster: Cluster) -> None:
    cluster.cut_off.clear()
    cluster.memory.away = False
    cluster.store.before = cluster.store.after = lambda: None
    if not cluster.planes:
        cluster.start()


def assert_no_second_copy(cluster: Cluster) -> None:
    for model, most in (("chat", 3), ("embed", 1)):
        shards = cluster.running().get(model, [])
        assert len(shards) == len(set(shards)) <= most
    assert max(Counter(cluster.starts()).values(), default=1) == 1


def assert_epochs_never_go_back(cluster: Cluster) -> None:
    leaders = [plane for plane in cluster.planes if plane.lease.is_leader()]
    assert len(leaders) <= 1
