import asyncio

import pytest
from msgspec.structs import replace

from llmgw.schema.desired import DesiredState, Mode
from llmgw.schema.errors import NotFound
from llmgw.schema.lease import Fence
from llmgw.schema.link import Heartbeat, LogReply, LogRequest, Order, OrderRefused, Refused, Welcome
from llmgw.schema.report import Load
from llmgw.server import agents as module
from llmgw.server.agents import Agents
from llmgw.server.asked import Asked
from llmgw.server.live import LiveNodes
from llmgw.testing.clock import FakeClock
from llmgw.testing.cluster import SimulatedStream
from llmgw.testing.fake_node import FakeNode, fake_facts


class Lease:
    def __init__(self):
        self.now = Fence(epoch=5, holder="us")
        self.raised = []

    def fence(self):
        return self.now

    def raise_epoch(self, at_least):
        self.raised.append(at_least)


class Bench:
    """Agents that are open, with one lease, one clock and streams made by hand."""

    def __init__(self):
        self.lease = Lease()
        self.live = LiveNodes()
        self.clock = FakeClock()
        self.agents = Agents(live=self.live, lease=self.lease, clock=self.clock)
        self.agents.open()

    def connect(self, node="n1", number=1, **hello):
        stream = SimulatedStream(node, number)
        self.agents.opened(stream, self.hello(node, **hello))
        return stream

    def hello(self, node="n1", **changes):
        return replace(FakeNode(node).hello("t"), **changes)


@pytest.fixture
def bench():
    return Bench()


def order(generation=1):
    return DesiredState(epoch=5, holder="us", generation=generation, mode=Mode.ENFORCE)


def test_an_agent_is_welcomed_with_the_leaders_fence(bench):
    assert bench.agents.admit(bench.hello()) == Welcome(epoch=5, holder="us")


def test_nobody_is_admitted_before_the_rows_are_read_or_after_the_lease_is_lost(bench):
    fresh = Agents(live=bench.live, lease=bench.lease, clock=bench.clock)
    assert isinstance(fresh.admit(bench.hello()), Refused)
    bench.lease.now = None
    assert isinstance(bench.agents.admit(bench.hello()), Refused)


@pytest.mark.parametrize("node", ["", "../etc", "a b", "x" * 64, "-a"])
def test_a_node_id_that_could_leave_its_place_is_refused(bench, node):
    assert "node id" in bench.agents.admit(bench.hello(node)).reason


@pytest.mark.parametrize(
    ("epoch", "holder", "raised"), [(4, "x", []), (5, "us", []), (5, None, []), (5, "x", [6]), (9, "x", [10])]
)
def test_an_epoch_obeyed_from_another_leader_raises_ours_before_anything_is_ordered(bench, epoch, holder, raised):
    answer = bench.agents.admit(bench.hello(epoch=epoch, holder=holder))
    assert bench.lease.raised == raised
    assert isinstance(answer, Refused if raised else Welcome)


def test_a_newer_stream_of_a_node_replaces_the_older_one(bench):
    old = bench.connect(number=1)
    bench.agents.send("n1", 1, order())
    new = bench.connect(number=2)
    assert old.closed is not None
    assert bench.agents.sent("n1") is None
    bench.agents.closed(old)
    assert bench.live.get("n1").connected
    bench.agents.said(old, Heartbeat(shards=(), generation=9))
    assert bench.live.get("n1").generation == 0
    bench.agents.closed(new)
    assert not bench.live.get("n1").connected


def test_an_order_decided_for_one_stream_is_not_sent_on_its_successor(bench):
    bench.connect(number=1)
    new = bench.connect(number=2)
    bench.agents.send("n1", 1, order())
    assert new.waiting == []
    assert bench.agents.sent("n1") is None
    bench.agents.send("n1", 2, order())
    assert new.waiting == [Order(state=order())]
    assert bench.agents.sent("n1") == order()


def test_a_heartbeat_updates_what_is_known_and_keeps_facts_and_load_it_leaves_out(bench):
    stream = bench.connect()
    facts = replace(fake_facts("n1"), agent_version="2")
    bench.agents.said(stream, Heartbeat(shards=(), generation=3, facts=facts, load=Load(age_s=1.0, load1=2.0)))
    bench.clock.advance(5.0)
    bench.agents.said(stream, Heartbeat(shards=(), generation=4))
    live = bench.live.get("n1")
    assert (live.generation, live.facts) == (4, facts)
    assert live.fresh_load(bench.clock.monotonic()) == Load(age_s=6.0, load1=2.0)


def test_a_load_outlives_the_stream_it_came_on_and_ages_all_the_same(bench):
    stream = bench.connect(number=1)
    bench.agents.said(stream, Heartbeat(shards=(), generation=1, load=Load(age_s=1.0, load1=2.0)))
    bench.agents.closed(stream)
    bench.clock.advance(30.0)
    bench.connect(number=2)
    live = bench.live.get("n1")
    assert live.fresh_load(bench.clock.monotonic()) == Load(age_s=31.0, load1=2.0)
    bench.clock.advance(30.0)
    assert live.fresh_load(bench.clock.monotonic()) is None


def test_any_byte_is_a_sign_of_life(bench):
    stream = bench.connect()
    bench.clock.advance(4.0)
    bench.agents.heard(stream)
    assert bench.live.get("n1").heard_at == bench.clock.monotonic()


def test_closing_lets_all_go_and_forgets_what_they_said(bench):
    stream = bench.connect()
    bench.agents.close("over")
    assert stream.closed == "over"
    assert bench.live.all() == ()
    assert isinstance(bench.agents.admit(bench.hello()), Refused)
    bench.agents.closed(stream)
    assert bench.live.all() == ()


@pytest.mark.parametrize(
    ("epoch", "generation", "told"),
    [
        (1_000_006, 0, "no leader of this cluster can have had epoch 1000006: it is at 5"),
        (2**63 - 1, 0, "no leader of this cluster can have had epoch"),
        (-1, 0, "no leader of this cluster can have had epoch -1"),
        (5, 2**53 + 1, "no order can have had generation"),
        (5, -1, "no order can have had generation -1"),
    ],
)
def test_forged_counters_are_refused_and_move_nothing(bench, epoch, generation, told):
    answer = bench.agents.admit(bench.hello(epoch=epoch, holder="x", generation=generation))
    assert isinstance(answer, Refused)
    assert answer.reason.startswith(told)
    assert bench.lease.raised == []


def test_a_forged_epoch_in_a_refusal_ends_the_stream_and_moves_nothing(bench):
    stream = bench.connect()
    refusal = OrderRefused(epoch=5, generation=1, reason="stale", highest_epoch=2**62, highest_holder="x")
    bench.agents.said(stream, refusal)
    assert stream.closed
    assert bench.lease.raised == []


def test_a_refused_order_of_a_later_leader_raises_the_epoch(bench):
    stream = bench.connect()
    refusal = OrderRefused(epoch=5, generation=1, reason="stale", highest_epoch=7, highest_holder="other")
    bench.agents.said(stream, refusal)
    assert bench.lease.raised == [8]
    assert stream.closed is None


def test_a_refused_generation_makes_the_agent_say_hello_again(bench):
    stream = bench.connect()
    refusal = OrderRefused(epoch=5, generation=1, reason="stale", highest_epoch=5, highest_holder="us")
    bench.agents.said(stream, refusal)
    assert bench.lease.raised == []
    assert stream.closed is not None


async def test_a_log_is_asked_of_the_node_and_its_answer_handed_back(bench):
    stream = bench.connect()
    asking = asyncio.ensure_future(bench.agents.read_log("r1.0", node="n1", attempt=2, tail_bytes=100))
    await asyncio.sleep(0)
    (request,) = stream.waiting
    assert request == LogRequest(id=request.id, shard="r1.0", attempt=2, tail_bytes=100)
    bench.agents.said(stream, LogReply(id=request.id + 1, text="not this one"))
    bench.agents.said(stream, LogReply(id=request.id, text="hello", attempt=2))
    assert (await asking).text == "hello"


async def test_a_log_of_a_node_that_is_away_or_silent_is_an_error_for_people(bench, monkeypatch):
    with pytest.raises(NotFound, match="not connected"):
        await bench.agents.read_log("r1.0", node="n1", attempt=None, tail_bytes=100)
    bench.connect()
    monkeypatch.setattr(module, "LOG_DEADLINE_S", 0.01)
    with pytest.raises(NotFound, match="within"):
        await bench.agents.read_log("r1.0", node="n1", attempt=None, tail_bytes=100)


class Told:
    """A directory that says who leads, as the test wants it."""

    def __init__(self):
        self.holder = None

    def agent_addresses(self):
        return ("10.0.0.1:8801", "10.0.0.2:8801")

    def leader_address(self):
        return "10.0.0.2:8801" if self.holder else None

    def leader(self):
        return self.holder


class Standby(Bench):
    """Agents of a control plane that stands by."""

    def __init__(self):
        super().__init__()
        self.told = Told()
        self.agents = Agents(live=self.live, lease=self.lease, clock=self.clock, directory=self.told)
        self.lease.now = None

    async def waits(self, hello):
        waiting = asyncio.ensure_future(self.agents.settle(hello))
        await asyncio.sleep(0.01)
        return waiting


async def test_an_agent_that_lost_its_leader_waits_until_this_one_leads():
    standby = Standby()
    standby.told.holder = "lost"
    waiting = await standby.waits(standby.hello(epoch=4, holder="lost"))
    assert not waiting.done()
    standby.lease.now = Fence(epoch=5, holder="us")
    standby.agents.look()
    await asyncio.sleep(0.01)
    assert not waiting.done(), "it leads, and has yet to read its rows"
    standby.agents.open()
    await asyncio.wait_for(waiting, 5)
    answer = standby.agents.admit(standby.hello(epoch=4, holder="lost"))
    assert answer == Welcome(epoch=5, holder="us", servers=("10.0.0.1:8801", "10.0.0.2:8801"))


async def test_an_agent_is_sent_on_at_once_when_another_one_leads_than_it_obeyed_last():
    standby = Standby()
    standby.told.holder = "lost"
    waiting = await standby.waits(standby.hello(epoch=4, holder="lost"))
    standby.told.holder = "next"
    standby.agents.look()
    await asyncio.wait_for(waiting, 5)
    answer = standby.agents.admit(standby.hello(epoch=4, holder="lost"))
    assert isinstance(answer, Refused)
    assert answer.leader == "10.0.0.2:8801"
    await asyncio.wait_for(standby.agents.settle(standby.hello()), 5)


async def test_an_agent_waits_for_a_leader_no_longer_than_it_waits_for_an_answer(monkeypatch):
    monkeypatch.setattr(module, "HOLD_S", 0.02)
    standby = Standby()
    await asyncio.wait_for(standby.agents.settle(standby.hello()), 5)
    assert standby.agents.admit(standby.hello()).leader is None


async def test_one_that_stands_by_remembers_who_asked_and_forgets_it_once_it_leads(bench):
    asked = Asked(bench.clock)
    standby = Agents(live=bench.live, lease=bench.lease, clock=bench.clock, asked=asked)
    await standby.settle(bench.hello("n7"))
    assert asked.lately() == {"n7"}
    standby.open()
    await standby.settle(bench.hello("n8"))
    assert asked.lately() == frozenset()
