from pathlib import Path

from llmgw.hardware.cgroup import MemoryLimit
from llmgw.hardware.memory import Memory, parse_meminfo, read, usable

MEMINFO = (Path(__file__).parents[2] / "fixtures" / "hardware" / "proc" / "procfs-meminfo.txt").read_text()
MIB = 1024 * 1024
WITH_AVAILABLE = "MemTotal: 16384 kB\nMemFree: 1024 kB\nMemAvailable: 8192 kB\n"


def test_kilobytes_become_bytes_and_bare_numbers_stay():
    values = parse_meminfo(MEMINFO)
    assert values["MemTotal"] == 15666184 * 1024
    assert values["HugePages_Total"] == 0


def test_a_kernel_without_memavailable_counts_what_it_can_drop():
    memory = usable(MEMINFO, [])
    assert memory.available_bytes == (440324 + 12007640 + 1738124) * 1024


def test_the_tightest_limit_is_the_memory_there_is():
    limits = [
        MemoryLimit(limit_bytes=8 * MIB, used_bytes=3 * MIB, reclaimable_bytes=1 * MIB),
        MemoryLimit(limit_bytes=12 * MIB, used_bytes=4 * MIB, reclaimable_bytes=0),
    ]
    memory = usable(WITH_AVAILABLE, limits)
    assert memory == Memory(total_bytes=8 * MIB, available_bytes=6 * MIB, used_bytes=2 * MIB)


def test_a_wider_limit_that_others_have_filled_leaves_less_room():
    limits = [
        MemoryLimit(limit_bytes=8 * MIB, used_bytes=1 * MIB, reclaimable_bytes=0),
        MemoryLimit(limit_bytes=12 * MIB, used_bytes=11 * MIB, reclaimable_bytes=0),
    ]
    assert usable(WITH_AVAILABLE, limits) == Memory(total_bytes=8 * MIB, available_bytes=MIB, used_bytes=MIB)


def test_what_others_on_the_machine_took_is_not_used_by_a_limited_group():
    limit = MemoryLimit(limit_bytes=12 * MIB, used_bytes=1 * MIB, reclaimable_bytes=0)
    assert usable(WITH_AVAILABLE, [limit]) == Memory(total_bytes=12 * MIB, available_bytes=8 * MIB, used_bytes=MIB)


def test_a_limited_group_whose_use_is_not_told_has_unknown_use():
    limit = MemoryLimit(limit_bytes=4 * MIB, used_bytes=None, reclaimable_bytes=0)
    assert usable(WITH_AVAILABLE, [limit]).used_bytes is None


def test_a_limit_above_the_machine_is_none():
    huge = MemoryLimit(limit_bytes=2**63, used_bytes=15 * MIB, reclaimable_bytes=0)
    assert usable(WITH_AVAILABLE, [huge]) == Memory(total_bytes=16 * MIB, available_bytes=8 * MIB, used_bytes=8 * MIB)


def test_a_full_group_has_nothing_left_rather_than_less():
    over = MemoryLimit(limit_bytes=4 * MIB, used_bytes=5 * MIB, reclaimable_bytes=0)
    assert usable(WITH_AVAILABLE, [over]).available_bytes == 0


def test_what_is_not_told_is_unknown():
    assert usable("", []) == Memory(total_bytes=None, available_bytes=None, used_bytes=None)


def test_this_machine_has_memory():
    memory = read()
    assert memory.total_bytes is not None
    assert memory.available_bytes is not None
    assert 0 < memory.available_bytes <= memory.total_bytes
