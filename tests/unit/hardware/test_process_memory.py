import json
import os
from pathlib import Path

from llmgw.hardware import process_memory
from llmgw.hardware.process_memory import Resident

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hardware" / "proc"
KIB = 1024


def captured(name):
    return (FIXTURES / name).read_text()


def test_rss_is_told_by_kind():
    found = process_memory.parse_status(captured("procfs-26231-status.txt"))
    assert found == Resident(total_bytes=6716 * KIB, anonymous_bytes=2092 * KIB)


def test_shared_memory_is_not_backed_by_a_file():
    found = process_memory.parse_status("RssAnon:\t10 kB\nRssFile:\t20 kB\nRssShmem:\t5 kB\n")
    assert found == Resident(total_bytes=35 * KIB, anonymous_bytes=15 * KIB)


def test_an_old_kernel_tells_rss_as_a_whole():
    assert process_memory.parse_status("VmRSS:\t7 kB\n") == Resident(total_bytes=7 * KIB, anonymous_bytes=None)


def test_a_kernel_thread_has_no_memory_of_its_own():
    assert process_memory.parse_status("Name:\tkworker\nThreads:\t1\n") is None


def test_a_rollup_of_an_old_kernel_gives_pss_and_whole_anonymous_pages():
    found = process_memory.parse_rollup(captured("procfs-26231-smaps_rollup.txt"))
    assert found == Resident(total_bytes=29944 * KIB, anonymous_bytes=20756 * KIB)


def test_a_rollup_that_may_not_be_read_tells_nothing():
    assert process_memory.parse_rollup("") is None


def test_shared_pages_of_a_real_engine_are_counted_once():
    group = json.loads(captured("vllm-cpu-process-group.json")).values()
    rss = process_memory.summed([process_memory.parse_status(one["status"]) for one in group])
    pss = process_memory.summed([process_memory.parse_rollup(one["smaps_rollup"]) for one in group])
    mib = 1024 * KIB
    assert (rss.total_bytes // mib, pss.total_bytes // mib) == (2710, 2440)
    assert rss.anonymous_bytes // mib == 2295
    assert pss.anonymous_bytes <= rss.anonymous_bytes


def test_a_sum_with_an_unknown_part_is_unknown():
    parts = [Resident(total_bytes=2, anonymous_bytes=1), Resident(total_bytes=3, anonymous_bytes=None)]
    assert process_memory.summed(parts) == Resident(total_bytes=5, anonymous_bytes=None)


def test_this_process_is_read_both_ways_and_a_missing_one_is_none():
    rss, pss = process_memory.read_rss(os.getpid()), process_memory.read_pss(os.getpid())
    assert rss is not None
    assert pss is not None
    assert 0 < pss.total_bytes <= 1.2 * rss.total_bytes
    assert process_memory.read_rss(2**30) is None
    assert process_memory.read_pss(2**30) is None
