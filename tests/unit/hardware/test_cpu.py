import json
from pathlib import Path

from llmgw.hardware import cpu

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hardware" / "proc"


def test_model_and_decisive_flags_come_from_the_first_processor():
    model, flags = cpu.parse_cpuinfo((FIXTURES / "procfs-cpuinfo.txt").read_text())
    assert model == "Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz"
    assert flags == ("avx", "avx2", "fma", "f16c", "bmi2")


def test_arm_names_its_flags_features():
    assert cpu.parse_cpuinfo("Features\t: fp asimd sve\n") == (None, ("asimd", "sve"))


def test_hyper_threads_of_one_core_are_one_core(tmp_path):
    for number, core in enumerate(("0", "1", "0", "1")):
        topology = tmp_path / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text("0\n")
        (topology / "core_id").write_text(core + "\n")
    assert cpu.physical_cores(tmp_path) == 2


def test_a_kernel_without_topology_leaves_the_cores_unknown(tmp_path):
    assert cpu.physical_cores(tmp_path) is None


def test_lists_of_processors_are_counted():
    assert cpu.parse_cpu_list("0-3,8\n") == 5
    assert cpu.parse_cpu_list("0\n") == 1
    assert cpu.parse_cpu_list("\n") == 0


def test_a_quota_caps_the_usable_cores():
    assert cpu.usable_cores(8, 2.5) == 2.5
    assert cpu.usable_cores(2, 16.0) == 2.0
    assert cpu.usable_cores(4, None) == 4.0


def test_waiting_for_a_disk_is_not_busy():
    times = cpu.parse_times((FIXTURES / "procfs-stat.txt").read_text())
    assert times is not None
    assert times.busy == 301854 + 612 + 111922 + 2 + 3944
    assert times.total == times.busy + 8979004 + 3552


def test_only_the_processors_we_may_run_on_count():
    text = (FIXTURES / "procfs-stat.txt").read_text()
    two = cpu.parse_times(text, {1, 3})
    assert two is not None
    assert two.busy == (47869 + 23 + 16474 + 0 + 46) + (47054 + 102 + 15683 + 0 + 60)
    assert two.total == two.busy + (1110787 + 591) + (1113230 + 533)


def test_processors_under_other_numbers_count_all_together():
    text = (FIXTURES / "procfs-stat.txt").read_text()
    assert cpu.parse_times(text, {1, 64}) == cpu.parse_times(text)


def test_what_the_hypervisor_took_is_not_left_for_us():
    before, after = cpu.parse_times("cpu 0 0 0 0 0 0 0 0 0 0"), cpu.parse_times("cpu 10 0 0 60 10 0 0 20 0 0")
    assert cpu.busy_percent(before, after) == 30.0


def test_a_recorded_pair_of_a_machine_without_a_rest_is_all_busy():
    pair = json.loads((FIXTURES / "group-pair.json").read_text())
    before, after = (cpu.parse_times(pair[look]["stat"]) for look in ("first", "second"))
    assert cpu.busy_percent(before, after) == 99.9


def test_waiting_time_that_the_kernel_corrects_downwards_makes_no_negative_share():
    before, after = cpu.CpuTimes(busy=100, total=1000), cpu.CpuTimes(busy=99, total=1100)
    assert cpu.busy_percent(before, after) == 0.0


def test_a_quota_is_used_up_rather_than_overdrawn():
    assert cpu.quota_percent(2.0, used_s=5.0, span_s=5.0) == 50.0
    assert cpu.quota_percent(2.0, used_s=11.0, span_s=5.0) == 100.0
    assert cpu.quota_percent(2.0, used_s=1.0, span_s=0.0) is None


def test_load_averages_are_the_first_three():
    assert cpu.parse_loadavg((FIXTURES / "procfs-loadavg.txt").read_text()) == (0.02, 0.04, 0.05)
    assert cpu.parse_loadavg("") is None


def test_busy_is_the_share_between_two_readings():
    before, after = cpu.CpuTimes(busy=100, total=1000), cpu.CpuTimes(busy=150, total=1200)
    assert cpu.busy_percent(before, after) == 25.0
    assert cpu.busy_percent(None, after) is None
    assert cpu.busy_percent(after, after) is None


def test_this_machine_is_described():
    host = cpu.discover()
    assert host.kernel
    assert host.cores_usable is not None
    assert host.cores_usable > 0
