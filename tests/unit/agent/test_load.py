from llmgw.agent import load
from llmgw.agent.load import LoadMeter


def test_before_the_first_span_is_over_nothing_is_known():
    assert LoadMeter().measure() is None


def test_a_measurement_carries_its_age_until_the_next(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(load.time, "monotonic", lambda: now[0])
    meter = LoadMeter()
    now[0] += 5
    fresh = meter.measure()
    assert fresh is not None
    assert fresh.age_s == 0.0
    assert fresh.load1 is not None
    assert fresh.memory_available_bytes is not None
    now[0] += 1.5
    again = meter.measure()
    assert again is not None
    assert again.age_s == 1.5
    assert again.memory_used_bytes == fresh.memory_used_bytes
    now[0] += 5
    later = meter.measure()
    assert later is not None
    assert later.age_s == 0.0
