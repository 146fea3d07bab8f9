from types import SimpleNamespace

from llmgw.gateway.metrics import GatewayTotals, WorkerCounters
from llmgw.gateway.usage import UsageMeter
from llmgw.schema.demand import MetricSample
from llmgw.telemetry.metrics import TABLE, Kind


def a_call(**given):
    meter = UsageMeter()
    meter.known, meter.prompt, meter.cached, meter.completion = True, 5, 3, 2
    call = {"model": "m", "key": "lk_1", "label": "chat", "status": 200, "retries": 1}
    call |= {"first_token_at": 10.02, "started_at": 10.0, "place": SimpleNamespace(believed=0.8)}
    return SimpleNamespace(**{**call, "meter": meter, **given})


def values(samples):
    return {(sample.name, *dict(sample.labels).values()): sample.value for sample in samples}


def test_a_finished_call_is_counted_under_the_names_and_labels_of_the_table():
    counters = WorkerCounters()
    counters.finished(a_call(), 11.0)
    counters.finished(a_call(status=499, first_token_at=None, retries=0), 11.0)
    counters.finished(a_call(key=None, place=SimpleNamespace(believed=None)), 11.0)
    counters.refused(413)
    counters.between_tokens("m").observe(0.003)
    totals = GatewayTotals("g")
    totals.report(1, counters.samples({"m": 4}, {"m": 2}))
    got = values(totals.samples())
    assert got["llmgw_gateway_requests", "g", "m", "chat", "200"] == 2
    assert got["llmgw_gateway_requests", "g", "m", "chat", "499"] == 1
    assert got["llmgw_gateway_requests", "g", "", "", "413"] == 1
    assert got["llmgw_gateway_tokens", "g", "m", "cached"] == 9
    assert got["llmgw_gateway_tokens", "g", "m", "expected"] == 8
    assert got["llmgw_gateway_key_tokens", "g", "lk_1", "m", "cached"] == 6
    assert got["llmgw_gateway_inter_token_seconds_bucket", "g", "m", "0.0025"] == 0
    assert got["llmgw_gateway_inter_token_seconds_bucket", "g", "m", "0.005"] == 1
    assert got["llmgw_gateway_retries", "g", "m"] == 2
    assert (got["llmgw_gateway_queue_depth", "g", "m"], got["llmgw_gateway_in_flight", "g", "m"]) == (4, 2)
    assert got["llmgw_gateway_time_to_first_token_seconds_bucket", "g", "m", "0.01"] == 0
    assert got["llmgw_gateway_time_to_first_token_seconds_bucket", "g", "m", "0.025"] == 2
    assert got["llmgw_gateway_time_to_first_token_seconds_count", "g", "m"] == 2
    known = {metric.name: set(metric.labels) for metric in TABLE}
    for sample in totals.samples():
        name = sample.name
        for suffix in ("_bucket", "_sum", "_count"):
            name = name.removesuffix(suffix)
        assert {label for label, _ in sample.labels} - {"le"} == known[name]


def test_a_model_that_does_not_exist_makes_no_label():
    counters = WorkerCounters()
    counters.finished(a_call(model=None, status=404), 11.0)
    assert set(values(counters.samples({}, {}))) == {("llmgw_gateway_requests", "", "chat", "404")}


def test_counters_outlive_their_worker_and_gauges_do_not():
    assert next(metric.kind for metric in TABLE if metric.name == "llmgw_gateway_in_flight") is Kind.GAUGE
    totals = GatewayTotals("g")
    count = MetricSample(name="llmgw_gateway_retries", labels=(("model", "m"),), value=3)
    gauge = MetricSample(name="llmgw_gateway_in_flight", labels=(("model", "m"),), value=2)
    for worker in (1, 2):
        totals.report(worker, (count, gauge))
        totals.report(worker, (count, gauge))
    assert set(values(totals.samples()).values()) == {6, 4}
    totals.ended(1)
    totals.ended(1)
    got = values(totals.samples())
    assert (got["llmgw_gateway_retries", "g", "m"], got["llmgw_gateway_in_flight", "g", "m"]) == (6, 2)
