"""A fleet too large to plan on the loop: plans arrive late, and the cluster still comes to rest as asked."""

import asyncio
import itertools

import pytest

from llmgw.core.planner import plan
from llmgw.schema.plan import Plan
from llmgw.server.plan_ahead import SMALL_NODES, PlanAhead
from llmgw.server.plan_news import Told
from llmgw.server.plan_process import PlanFailed
from llmgw.testing.cluster import Cluster


class LateWorker:
    """Plans, but only some looks later, and dies now and then."""

    def __init__(self, chance) -> None:
        self._chance = chance
        self._told = Told()

    def differs(self, snapshot) -> bool:
        return self._told.differs(snapshot)

    async def plan(self, snapshot) -> Plan:
        list(self._told.news(snapshot))
        for _ in range(self._chance.randrange(12)):
            await asyncio.sleep(0)
        if self._chance.random() < 0.1:
            self._told = Told()
            raise PlanFailed("it died")
        return plan(snapshot)

    async def stop(self) -> None:
        self._told = Told()


@pytest.fixture
async def cluster(request):
    made = Cluster(nodes=SMALL_NODES + 4, seed=request.param)
    made._planner = PlanAhead(LateWorker(made.random), made.clock, wake=lambda: None)
    await made.run(5)
    yield made
    await made._planner.stop()


@pytest.mark.parametrize("cluster", range(12), indirect=True)
async def test_late_plans_place_all_that_was_asked_for_and_nothing_twice(cluster):
    chance = cluster.random
    for number in range(6):
        await cluster.serve(f"m{number}", replicas=chance.randrange(1, 9), cores=chance.choice([1.0, 4.0, 8.0]))
        if chance.random() < 0.5:
            await cluster.run(chance.choice([0.5, 1.0, 3.0]))
        if chance.random() < 0.3:
            cluster.disconnect(chance.choice(sorted(cluster.nodes)))
        if chance.random() < 0.2:
            cluster.kill(cluster.leader())
            cluster.start()
            await cluster.run(10)
    await cluster.settle()
    rows, running = await cluster.rows(), cluster.running()
    short = {status.model for status in rows.statuses if status.unplaceable is not None}
    for model in rows.models:
        shards = running.get(model.name, [])
        assert len(shards) == len(set(shards))
        assert len(shards) == model.min or (model.name in short and len(shards) < model.min)
    assert {replica.state for replica in rows.replicas} == {"ready"}
    assert sorted(f"{replica.id}.0" for replica in rows.replicas) == sorted(
        itertools.chain.from_iterable(running.values())
    )
