from llmgw.agent.node_load import CpuLook, NodeMeter, busy_percent
from llmgw.hardware.cgroup import CpuLimit
from llmgw.hardware.cpu import CpuTimes


def look(at, busy, total, *, limit=None, charged_s=None):
    return CpuLook(at=at, times=CpuTimes(busy=busy, total=total), limit=limit, charged_s=charged_s)


def test_without_a_quota_all_processors_count():
    assert busy_percent(look(0.0, 0, 0), look(5.0, 30, 120)) == 25.0


def test_under_a_quota_its_share_counts():
    limit = CpuLimit(cores=2.0, folder="/box")
    before, after = look(0.0, 0, 0, limit=limit, charged_s=1.0), look(5.0, 30, 120, limit=limit, charged_s=9.0)
    assert busy_percent(before, after) == 80.0


def test_a_quota_that_just_came_or_is_not_accounted_leaves_the_processors():
    limit = CpuLimit(cores=2.0, folder="/box")
    assert busy_percent(look(0.0, 0, 0), look(5.0, 30, 120, limit=limit, charged_s=9.0)) == 25.0
    assert busy_percent(look(0.0, 0, 0, limit=limit), look(5.0, 30, 120, limit=limit)) == 25.0


def test_the_share_is_known_from_the_second_look_on_and_the_rest_at_once():
    meter = NodeMeter()
    first = meter.measure()
    assert first.cpu_percent is None
    assert first.load1 is not None
    assert first.memory_available_bytes is not None
    sum(range(3_000_000))  # so that some ticks pass
    second = meter.measure()
    assert second.cpu_percent is None or 0 <= second.cpu_percent <= 100
