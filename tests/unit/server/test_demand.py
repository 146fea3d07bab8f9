from llmgw.core.demand import ModelLoad
from llmgw.schema.demand import AuditEntry, DemandReport, JudgeReport, MetricSample, ModelDemand, ReplicaDemand
from llmgw.schema.guard.coverage import Coverage, Outcome
from llmgw.server.audit_log import KEPT, AuditLog
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


def test_what_a_gateway_asked_by_itself_counts_apart_for_as_long_and_makes_nothing_less_idle():
    clock = FakeClock()
    board = DemandBoard(clock)
    clock.advance(700.0)
    probed = ReplicaDemand(in_flight=0, last_probed_age_s=1.0)
    board.report(DemandReport(gateway="a", seq=1, replicas={"r1": probed}))
    assert (board.probed(), board.answering()) == ({"r1"}, frozenset())
    assert board.idle_s(["r1"]) == {"r1": 700.0}
    clock.advance(29.0)
    assert board.probed() == {"r1"}
    clock.advance(0.1)
    assert board.probed() == frozenset()


def asked(age):
    return ReplicaDemand(in_flight=0, last_answered_age_s=age)


def test_loads_are_summed_up_over_gateways_and_unknown_while_none_reports():
    board = DemandBoard(FakeClock())
    assert board.loads() is None
    board.report(report("a"))
    waiting = ModelDemand(held=4, in_flight=0, arrivals=9, oldest_wait_s=7.0)
    board.report(DemandReport(gateway="b", seq=1, models={"chat": waiting}))
    assert board.loads() == {"chat": ModelLoad(held=5, in_flight=2, arrivals=0, oldest_wait_s=7.0)}


def arrived(gateway, **arrivals):
    models = {model: ModelDemand(held=0, in_flight=0, arrivals=count) for model, count in arrivals.items()}
    return DemandReport(gateway=gateway, seq=1, models=models)


def test_only_new_requests_count_as_arrivals_whatever_gateways_forget_or_repeat():
    clock = FakeClock()
    board = DemandBoard(clock)

    def counted():
        return {model: load.arrivals for model, load in board.loads().items()}

    board.report(arrived("a", chat=100))
    assert counted() == {"chat": 0}, "what came before this process knew of the gateway is no news"
    board.report(arrived("a", chat=103, code=1))
    assert counted() == {"chat": 3, "code": 1}
    clock.advance(10.0)
    board.report(arrived("b"))
    assert counted() == {"chat": 3, "code": 1}, "a silent gateway takes nothing back"
    board.report(arrived("a", chat=103, code=1))
    assert counted() == {"chat": 3, "code": 1}, "and counts nothing twice"
    board.report(arrived("a"))
    board.report(arrived("a", chat=2))
    assert counted() == {"chat": 5, "code": 1}, "a restarted one counts from 0"


def test_the_first_held_request_is_told_at_once_and_further_ones_are_not():
    board = DemandBoard(FakeClock())
    told = []
    board.held.subscribe(lambda: told.append(1))
    board.report(DemandReport(gateway="a", seq=1, models={"chat": ModelDemand(held=0, in_flight=1, arrivals=1)}))
    assert len(told) == 0
    board.report(report("a"))
    board.report(report("a", seq=2))
    assert len(told) == 1


def test_a_killed_gateways_held_requests_are_no_demand_any_more():
    clock = FakeClock()
    board = DemandBoard(clock)
    board.report(DemandReport(gateway="a", seq=1, models={"chat": ModelDemand(held=50, in_flight=0, arrivals=50)}))
    board.report(DemandReport(gateway="b", seq=1))
    clock.advance(2.0)
    board.report(DemandReport(gateway="b", seq=2))
    clock.advance(1.1)
    assert board.loads() == {}


def test_a_replica_is_idle_since_its_last_request_at_any_gateway_or_since_this_process_knows():
    clock = FakeClock()
    board = DemandBoard(clock)
    assert board.idle_s(["r1"]) == {}, "no gateway reports"
    clock.advance(100.0)
    board.report(DemandReport(gateway="a", seq=1, replicas={"r1": asked(5.0), "r2": asked(5.0)}))
    busy = ReplicaDemand(in_flight=1, last_answered_age_s=50.0)
    board.report(DemandReport(gateway="b", seq=1, replicas={"r1": asked(20.0), "r2": busy}))
    assert board.idle_s(["r1", "r2", "r3"]) == {"r1": 5.0, "r2": 0.0, "r3": 100.0}
    clock.advance(1.0)
    assert board.idle_s(["r1"]) == {"r1": 6.0}


def test_what_is_said_of_judges_expires_and_their_audit_stays():
    clock = FakeClock()
    board = DemandBoard(clock)
    said = JudgeReport(waiting=2)
    entry = record(clock, "a")
    board.report(DemandReport(gateway="g1", seq=1, judges={"guard": said}, audit=(entry,)))
    board.report(DemandReport(gateway="g2", seq=1, judges={"guard": said}))
    assert board.judges() == {"guard": [said, said]}
    clock.advance(3.1)
    assert board.judges() == {}
    assert board.audit.newest() == (entry,)


def test_the_audit_keeps_the_newest_and_each_record_is_told_to_the_leader_once():
    clock = FakeClock()
    log = AuditLog()
    entries = []
    for number in range(KEPT + 2):
        clock.advance(1.0)
        entries.append(record(clock, str(number)))
    log.take(entries)
    assert [entry.request_id for entry in log.newest()[:2]] == [str(KEPT + 1), str(KEPT)]
    assert len(log.newest()) == KEPT
    assert log.untold()[-1] == entries[-1]
    assert log.untold() == ()


def record(clock, request_id):
    coverage = Coverage(outcome=Outcome.BLOCKED)
    return AuditEntry(
        at=clock.now(), request_id=request_id, key=None, project=None, model="chat", surface="chat", coverage=coverage
    )
