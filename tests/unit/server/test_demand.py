from llmgw.schema.demand import DemandReport, MetricSample, ModelDemand, ReplicaDemand
from llmgw.server.demand import DemandBoard, GatewayLive
from llmgw.testing.clock import FakeClock

DEMAND = ModelDemand(held=1, in_flight=2, arrivals=3)
SAMPLE = MetricSample(name="m", labels=(("gateway", "g1"),), value=1.0)


def report(gateway, seq=1):
    return DemandReport(gateway=gateway, seq=seq, models={"chat": DEMAND}, metrics=(SAMPLE,))


def test_demand_is_told_per_model_and_gateway():
    board = DemandBoard(FakeClock())
    board.report(report("g2"))
    board.report(report("g1"))
    assert board.by_model() == {"chat": [("g1", DEMAND), ("g2", DEMAND)]}


def test_a_dead_gateways_demand_and_samples_vanish_after_three_seconds():
    clock = FakeClock()
    board = DemandBoard(clock)
    board.report(report("g1"))
    clock.advance(3.0)
    assert board.samples() == (SAMPLE,)
    clock.advance(0.1)
    assert board.by_model() == {}
    assert board.samples() == ()


def test_a_restarted_gateway_counts_at_once_although_its_numbers_begin_anew():
    board = DemandBoard(FakeClock())
    board.report(report("g1", seq=500))
    board.report(DemandReport(gateway="g1", seq=1))
    assert board.by_model() == {}


def test_the_end_of_an_older_stream_does_not_hide_the_newer_one():
    board = DemandBoard(FakeClock())
    old = GatewayLive(name="g1", version="1", pid=1, connected_at=0.0)
    new = GatewayLive(name="g1", version="1", pid=2, connected_at=1.0)
    board.connect(old)
    board.connect(new)
    board.disconnect(old)
    assert board.gateways() == (new,)
    board.disconnect(new)
    assert board.gateways() == ()


def test_a_replica_answers_for_half_a_minute_after_its_last_answer_at_any_gateway():
    clock = FakeClock()
    board = DemandBoard(clock)
    board.report(DemandReport(gateway="a", seq=1, replicas={"r1": asked(5.0), "r2": asked(29.0), "r3": asked(31.0)}))
    board.report(DemandReport(gateway="b", seq=1, replicas={"r1": asked(20.0), "r4": asked(None)}))
    assert board.answering() == {"r1", "r2"}
    clock.advance(25.0)
    assert board.answering() == {"r1"}
    clock.advance(0.1)
    assert board.answering() == frozenset()


def asked(age):
    return ReplicaDemand(in_flight=0, last_answered_age_s=age)
