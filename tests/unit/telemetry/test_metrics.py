from llmgw.telemetry.metrics import TABLE, Kind


def test_names_are_unique_and_ours():
    names = [metric.name for metric in TABLE]
    assert len(set(names)) == len(names)
    assert all(name.startswith("llmgw_") for name in names)


def test_counters_are_named_without_the_suffix_the_exposition_adds():
    assert [metric.name for metric in TABLE if metric.name.endswith("_total")] == []


def test_histograms_have_rising_buckets_and_the_others_none():
    for metric in TABLE:
        if metric.kind is Kind.HISTOGRAM:
            assert metric.buckets == tuple(sorted(set(metric.buckets)))
        else:
            assert metric.buckets == ()
