from llmgw.server.process_metrics import ProcessMetrics


def values(metrics):
    return {(sample.name, *sample.labels): sample.value for sample in metrics.samples()}


def test_lag_is_counted_in_cumulative_buckets():
    metrics = ProcessMetrics()
    for seconds in (0.0005, 0.03, 0.03, 99.0):
        metrics.lag(seconds)
    found = values(metrics)
    name = "llmgw_loop_lag_seconds"
    assert found[f"{name}_bucket", ("le", "0.001")] == 1
    assert found[f"{name}_bucket", ("le", "0.05")] == 3
    assert found[f"{name}_bucket", ("le", "60.0")] == 3
    assert found[f"{name}_bucket", ("le", "+Inf")] == found[f"{name}_count",] == 4
    assert found[f"{name}_sum",] == 99.0605


def test_store_calls_are_counted_by_name_and_failed_ones_by_code_too():
    metrics = ProcessMetrics()
    metrics.store_call("apply", 0.01, None)
    metrics.store_call("apply", 1.0, "store_unavailable")
    found = values(metrics)
    assert found["llmgw_store_call_seconds_count", ("call", "apply")] == 2
    assert found["llmgw_store_errors", ("call", "apply"), ("code", "store_unavailable")] == 1
