import pytest
from structlog.testing import capture_logs

from llmgw.ports import DeleteNode
from llmgw.schema.desired import Mode
from llmgw.schema.errors import StoreUnavailable
from llmgw.schema.link import Order
from llmgw.server import reconcile
from llmgw.server.reconcile import Reconciler
from llmgw.testing.cluster import TICK_S, Cluster


class Orders:
    """Notes what is sent, on top of the real agents."""

    def __init__(self, agents):
        self.agents = agents
        self.log = []

    def sent(self, node):
        return self.agents.sent(node)

    def send(self, node, stream, state):
        self.log.append((node, state.mode, len(state.shards)))
        self.agents.send(node, stream, state)


class Bench:
    def __init__(self, cluster):
        self.cluster = cluster
        self.plane = cluster.leader()
        self.orders = Orders(self.plane.agents)
        self.removed: set[str] = set()
        self.reconciler = Reconciler(
            fleet=self.plane.fleet,
            live=self.plane.live,
            orders=self.orders,
            lease=self.plane.lease,
            clock=cluster.clock,
            observer=self.plane._observer,
            rules=cluster.rules(leading_since=self.plane.hearing.monotonic()),
            hearing=self.plane.hearing,
            answering=frozenset,
            admits=lambda node: node not in self.removed,
        )

    def hello(self):
        for node in self.cluster.nodes.values():
            self.cluster._exchange(self.plane, node)


@pytest.fixture
async def bench():
    """A leader with rows of one model, and one node that it has not heard yet."""
    cluster = Cluster()
    cluster.cut_off.add("node-1")
    await cluster.run(3)
    await cluster.serve("chat")
    cluster.cut_off.clear()
    return Bench(cluster)


async def test_an_agent_is_observed_first_and_ordered_once_its_reports_were_part_of_a_turn(bench):
    bench.hello()
    await bench.reconciler.turn()
    assert bench.orders.log == [("node-1", Mode.OBSERVE, 0), ("node-1", Mode.ENFORCE, 1)]


async def test_a_large_fleet_is_decided_in_a_thread_with_the_same_orders(bench, monkeypatch):
    monkeypatch.setattr(reconcile, "AT_ONCE", -1)
    bench.hello()
    await bench.reconciler.turn()
    assert bench.orders.log == [("node-1", Mode.OBSERVE, 0), ("node-1", Mode.ENFORCE, 1)]


async def test_a_node_that_was_removed_is_not_taken_on_again_by_what_its_stream_still_says(bench):
    bench.hello()
    await bench.reconciler.turn()
    bench.removed.add("node-1")
    await bench.plane.fleet.change(lambda _: (DeleteNode(id="node-1"),))
    await bench.reconciler.turn()
    assert bench.plane.fleet.rows.nodes == ()


async def test_while_the_store_is_away_an_agent_is_only_observed(bench):
    def away():
        raise StoreUnavailable("away")

    bench.hello()
    bench.cluster.store.before = away
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await bench.reconciler.turn()
    assert bench.orders.log == [("node-1", Mode.OBSERVE, 0)]


async def test_an_order_is_sent_once_and_again_only_when_it_changes(bench):
    bench.hello()
    for _ in range(5):
        await bench.reconciler.turn()
    assert len(bench.orders.log) == 2
    await bench.cluster.serve("second")
    for _ in range(5):
        await bench.reconciler.turn()
    assert bench.orders.log[2:] == [("node-1", Mode.ENFORCE, 2)]


async def test_a_raised_epoch_sends_the_order_again_under_it(bench):
    bench.hello()
    await bench.reconciler.turn()
    bench.plane.lease.raise_epoch(50)
    for _ in range(4):
        bench.plane.lease.turn()
    await bench.reconciler.turn()
    (order,) = [message for message in bench.plane.streams["node-1"].waiting if isinstance(message, Order)]
    assert order.state.epoch == 50


async def test_a_stream_that_came_during_a_turn_is_not_ordered_by_it(bench):
    bench.hello()
    came = iter([True])

    def reconnect():
        if next(came, False):
            bench.cluster.disconnect("node-1")
            bench.hello()

    bench.cluster.store.after = reconnect
    await bench.reconciler.turn()
    assert bench.plane.streams["node-1"].waiting == []
    bench.cluster.clock.advance(TICK_S)
    await bench.reconciler.turn()
    assert bench.orders.log[-2:] == [("node-1", Mode.OBSERVE, 0), ("node-1", Mode.ENFORCE, 1)]


async def test_orders_stop_in_the_middle_of_a_plan_when_the_lease_does():
    cluster = Cluster(nodes=3)
    cluster.cut_off.update(cluster.nodes)
    await cluster.run(3)
    cluster.cut_off.clear()
    bench = Bench(cluster)
    bench.hello()
    bench.plane.lease.fence = Fences(bench.plane.lease.fence, left=4).fence  # observe, write, and two to order with
    await bench.reconciler.turn()
    assert [mode for _, mode, _ in bench.orders.log].count(Mode.ENFORCE) < 3


class Fences:
    """Gives a fence so many times, then the lease is gone."""

    def __init__(self, ask, *, left):
        self.ask = ask
        self.left = left

    def fence(self):
        self.left -= 1
        return self.ask() if self.left >= 0 else None


async def test_a_store_that_is_away_for_long_is_told_once(bench):
    def away():
        raise StoreUnavailable("away")

    bench.hello()
    bench.cluster.store.before = away
    with capture_logs() as logs:
        for _ in range(5):
            assert not await bench.reconciler._survive()
    assert [entry["event"] for entry in logs].count("reconcile.turn_failed") == 1
