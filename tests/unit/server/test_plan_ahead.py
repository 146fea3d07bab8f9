import asyncio

import msgspec
import pytest

from llmgw.core.planner import plan
from llmgw.schema.node import Reachability
from llmgw.schema.plan import Plan
from llmgw.server.plan_ahead import AGAIN_S, NO_PLAN, SMALL_NODES, PlanAhead
from llmgw.server.plan_news import Told
from llmgw.server.plan_process import PlanFailed
from llmgw.testing.clock import FakeClock
from llmgw.testing.factories import carried_out, make_model, make_node, make_seen, make_snapshot


class Elsewhere:
    """A worker whose plans are ready when the test says so."""

    def __init__(self):
        self.told = Told()
        self.asked = 0
        self.stopped = False
        self.fails = False
        self.go = asyncio.Event()

    def differs(self, snapshot):
        return self.told.differs(snapshot)

    async def plan(self, snapshot):
        self.asked += 1
        list(self.told.news(snapshot))
        await self.go.wait()
        if self.fails:
            raise PlanFailed("it died")
        return plan(snapshot)

    async def stop(self):
        self.stopped = True


class Bench:
    def __init__(self):
        self.worker, self.clock, self.wakes = Elsewhere(), FakeClock(), 0
        self.planner = PlanAhead(self.worker, self.clock, self.woken)

    def woken(self):
        self.wakes += 1

    async def finish(self):
        self.worker.go.set()
        for _ in range(10):
            await asyncio.sleep(0)


@pytest.fixture
async def bench():
    made = Bench()
    yield made
    await made.planner.stop()


def large(*models, nodes=SMALL_NODES + 1):
    return make_snapshot([make_node(f"n{number:03}") for number in range(nodes)], models or [make_model()])


async def test_a_small_fleet_is_planned_at_once_and_needs_no_worker(bench):
    snapshot = make_snapshot([make_node()], [make_model()])
    assert bench.planner(snapshot) == plan(snapshot)
    assert bench.worker.asked == 0


async def test_a_large_fleet_waits_for_nothing_and_is_woken_once_its_plan_is_ready(bench):
    snapshot = large()
    assert bench.planner(snapshot) == NO_PLAN
    await asyncio.sleep(0)
    assert bench.planner(snapshot) == NO_PLAN
    await bench.finish()
    assert (bench.worker.asked, bench.wakes) == (1, 1)
    assert bench.planner(snapshot).placements == plan(snapshot).placements


async def test_a_plan_is_carried_out_once(bench):
    snapshot = large()
    bench.planner(snapshot)
    await bench.finish()
    assert bench.planner(snapshot).placements
    assert bench.planner(snapshot) == NO_PLAN


async def test_a_fleet_that_did_not_change_is_not_planned_again_before_its_time(bench):
    snapshot = large()
    bench.planner(snapshot)
    await bench.finish()
    for _ in range(5):
        bench.planner(snapshot)
        await bench.finish()
    assert bench.worker.asked == 1
    bench.clock.advance(AGAIN_S)
    bench.planner(snapshot)
    await bench.finish()
    assert bench.worker.asked == 2


async def test_what_is_decided_for_a_model_that_changed_meanwhile_is_dropped_and_the_rest_stands(bench):
    snapshot = large(make_model("a"), make_model("b"))
    bench.planner(snapshot)
    await bench.finish()
    moved = msgspec.structs.replace(snapshot, models=(snapshot.models[0], *large(make_model("b", revision=2)).models))
    standing = bench.planner(moved)
    assert [placement.model for placement in standing.placements] == ["a"]


async def test_a_plan_for_a_node_that_fell_silent_is_dropped_whole(bench):
    snapshot = large()
    bench.planner(snapshot)
    await bench.finish()
    (placement,) = plan(snapshot).placements
    silent = tuple(
        make_seen(msgspec.structs.replace(seen.node, reachability=Reachability.UNREACHABLE))
        if seen.node.id == placement.allocations[0].node
        else seen
        for seen in snapshot.nodes
    )
    assert bench.planner(msgspec.structs.replace(snapshot, nodes=silent)) == NO_PLAN


async def test_a_plan_that_another_turn_has_overtaken_places_nothing_twice(bench):
    snapshot = large()
    bench.planner(snapshot)
    await bench.finish()
    assert bench.planner(carried_out(snapshot, plan(snapshot))).placements == ()


async def test_when_the_worker_fails_the_plan_is_made_here(bench):
    bench.worker.fails = True
    snapshot = large()
    bench.planner(snapshot)
    await bench.finish()
    for _ in range(500):
        if bench.wakes:
            break
        await asyncio.sleep(0.01)
    assert bench.planner(snapshot).placements == plan(snapshot).placements


async def test_refusals_made_before_a_node_joined_are_not_told_after_it(bench):
    nowhere = large(make_model(source="/nowhere"))
    late = msgspec.structs.replace(nowhere, now=nowhere.now.replace(year=2030))
    bench.planner(late)
    await bench.finish()
    joined = msgspec.structs.replace(late, nodes=(*late.nodes, make_seen(make_node("zz"))))
    assert bench.planner(joined) == Plan(judged=frozenset())


async def test_stopping_ends_what_is_being_asked(bench):
    bench.planner(large())
    await asyncio.sleep(0)
    await bench.planner.stop()
    assert bench.worker.stopped
    assert bench.wakes == 0
