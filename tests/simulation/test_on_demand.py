"""Models on demand in a simulated cluster: fake clock, gateways that say what they hold."""

import itertools

from llmgw.core.summary import summarize
from llmgw.ports import PutModel, PutStatus
from llmgw.schema.demand import DemandReport, ModelDemand, ReplicaDemand
from llmgw.schema.model import Model, ModelStatus, Profile
from llmgw.testing.cluster import Cluster


class Gateway:
    """Reports each second, to whichever control plane leads, what the test lets it hold and do."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.held = self.in_flight = self.arrivals = 0
        self.asked = {}
        self.seq = itertools.count(1)

    async def run(self, seconds):
        for _ in range(seconds):
            demand = ModelDemand(held=self.held, in_flight=self.in_flight, arrivals=self.arrivals)
            report = DemandReport(gateway="g1", seq=next(self.seq), models={"chat": demand}, replicas=dict(self.asked))
            self.cluster.leader().fleet._demand.report(report)
            await self.cluster.run(1)

    def ask(self, requests=1):
        self.held += requests
        self.arrivals += requests

    def route(self):
        return next(route for route in self.cluster.leader().routes() if route.model == "chat")

    def summary(self):
        return summarize(self.cluster.leader().fleet.snapshot(), version="1", leader="c", epoch=1)


async def started(*, nodes=1, cores=1.0, most=1, idle_s=None):
    cluster = Cluster(nodes=nodes)
    await cluster.run(3)
    model = Model(
        name="chat",
        source="hf:org/model@main",
        min=0,
        max=most,
        idle_s=idle_s,
        profile=Profile(cores=cores),
        created_at=cluster.clock.now(),
    )
    await cluster.leader().fleet.write((PutModel(model=model), PutStatus(status=ModelStatus(model="chat"))))
    return cluster, Gateway(cluster)


async def test_nothing_runs_until_somebody_asks_and_then_one_replica_that_stays():
    cluster, gateway = await started(most=3)
    await gateway.run(30)
    assert cluster.running() == {}
    assert gateway.route().hold_s is not None
    gateway.ask()
    await gateway.run(3)
    assert len(cluster.running()["chat"]) == 1
    assert len(gateway.route().replicas) == 1
    gateway.held = 0
    await gateway.run(3600)
    assert len(cluster.starts()) == 1


async def test_a_model_that_fits_nowhere_is_short_and_unplaceable_until_it_fits_or_nobody_asks_any_more():
    cluster, gateway = await started(cores=100.0)
    await cluster.run(30)  # until its weights were looked for
    assert gateway.summary().models.short == 0
    gateway.ask()
    await gateway.run(2)
    assert gateway.route().hold_s is None
    assert "fits on no node" in gateway.route().unavailable
    gateway.held = 0
    await gateway.run(300)
    summary = gateway.summary()
    assert (summary.models.short, summary.unplaceable) == (1, ("chat",))
    await gateway.run(310)
    assert gateway.summary().models.short == 0


async def test_an_idle_replica_is_named_after_ten_minutes_and_no_longer_once_it_is_asked():
    _, gateway = await started()
    gateway.ask()
    await gateway.run(5)
    gateway.held = 0
    (replica,) = gateway.route().replicas
    gateway.asked = {replica.id: ReplicaDemand(in_flight=1, last_answered_age_s=1.0)}
    await gateway.run(700)
    assert gateway.summary().idle_replicas == ()
    gateway.asked = {}
    await gateway.run(595)
    assert gateway.summary().idle_replicas == ()
    await gateway.run(10)
    (idle,) = gateway.summary().idle_replicas
    assert (idle.id, idle.model, idle.gpus) == (replica.id, "chat", 0)
    assert 600 <= idle.idle_seconds <= 610
    gateway.asked = {replica.id: ReplicaDemand(in_flight=0, last_answered_age_s=0.5)}
    await gateway.run(1)
    assert gateway.summary().idle_replicas == ()


async def test_timed_unloading_never_takes_a_replica_with_requests_in_flight():
    cluster, gateway = await started(idle_s=60.0)
    gateway.ask()
    await gateway.run(3)
    gateway.held, gateway.in_flight = 0, 1
    await gateway.run(600)
    assert len(cluster.running()["chat"]) == 1
    gateway.in_flight = 0
    await gateway.run(58)
    assert len(cluster.running()["chat"]) == 1
    await gateway.run(5)
    assert cluster.running() == {}
    gateway.ask()
    await gateway.run(3)
    assert len(cluster.running()["chat"]) == 1


async def test_a_crowd_starts_more_replicas_up_to_the_maximum():
    cluster, gateway = await started(most=3)
    gateway.ask(100)
    await gateway.run(15)
    assert len(cluster.running()["chat"]) == 3


async def test_a_new_leader_keeps_what_demand_had_started():
    cluster, gateway = await started(most=3, idle_s=600.0)
    gateway.ask(100)
    await gateway.run(15)
    gateway.held = 0
    cluster.kill(cluster.leader())
    cluster.start("control-2")
    await cluster.run(10)
    await gateway.run(100)
    assert len(cluster.running()["chat"]) == 3
    assert len(cluster.starts()) == 3
