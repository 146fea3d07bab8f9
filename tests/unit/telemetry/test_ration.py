from llmgw.telemetry import ration as module
from llmgw.telemetry.ration import Ration


def test_so_many_are_told_in_a_time_and_then_how_many_were_not(monkeypatch):
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    ration = Ration(most=2, within_s=60.0)
    assert [ration.take() for _ in range(5)] == [0, 0, None, None, None]
    now += 59.0
    assert ration.take() is None
    now += 1.0
    assert [ration.take() for _ in range(3)] == [4, 0, None]
