"""What is read from captures of /proc of real machines, as text that a reviewer has read."""

import json
from collections.abc import Callable
from pathlib import Path

from llmgw.hardware import cpu, memory, mounts, proc, process_memory
from llmgw.hardware.process_memory import Resident

Golden = Callable[[str, str], None]

FOLDER = Path(__file__).parents[1] / "fixtures" / "hardware" / "proc"
MIB = 1024**2


def captured(name: str) -> str:
    return (FOLDER / name).read_text()


def resident(found: Resident | None) -> str:
    if found is None:
        return "unknown"
    anonymous = "unknown" if found.anonymous_bytes is None else f"{found.anonymous_bytes / MIB:.1f}"
    return f"{found.total_bytes / MIB:.1f} MiB, of it {anonymous} MiB anonymous"


def process(stat: proc.ProcessStat) -> str:
    return (
        f"{stat.pid} {stat.name!r} {stat.state}, parent {stat.parent}, group {stat.group}, session {stat.session}, "
        f"own {stat.own_ticks} ticks, waited {stat.waited_ticks}, {stat.resident_pages} pages, start {stat.start_ticks}"
    )


def test_a_machine(golden: Golden) -> None:
    model, flags = cpu.parse_cpuinfo(captured("procfs-cpuinfo.txt"))
    stat = captured("procfs-stat.txt")
    found = memory.usable(captured("procfs-meminfo.txt"), ())
    lines = [
        f"processor     {model}: {' '.join(flags)}",
        f"all ticks     {cpu.parse_times(stat)}",
        *(f"cpu{number} ticks    {cpu.parse_times(stat, {number})}" for number in range(8)),
        f"load          {cpu.parse_loadavg(captured('procfs-loadavg.txt'))}",
        f"memory        {found}",
    ]
    golden("proc/machine.txt", "\n".join(lines))


def test_processors_of_a_machine_whose_memory_has_nodes_of_its_own(golden: Golden) -> None:
    lines = [line.strip() for line in captured("gh200-lscpu-numa-excerpt.txt").splitlines() if "CPU(s):" in line]
    found = [(name, cpu.parse_cpu_list(value)) for name, _, value in (line.partition(":") for line in lines)]
    golden("proc/gh200-numa.txt", "\n".join(f"{name}: {count} processors" for name, count in found))


def test_one_process(golden: Golden) -> None:
    lines = [
        process(proc.parse_stat(captured("procfs-26231-stat.txt"))),
        f"RSS  {resident(process_memory.parse_status(captured('procfs-26231-status.txt')))}",
        f"PSS  {resident(process_memory.parse_rollup(captured('procfs-26231-smaps_rollup.txt')))}",
    ]
    golden("proc/process.txt", "\n".join(lines))


def test_mounts_of_a_process(golden: Golden) -> None:
    found = mounts.parse_mountinfo(captured("procfs-26231-mountinfo.txt"))
    lines = [
        f"{one.device} {one.root} on {one.point}: {one.fstype} of {one.source}, "
        f"{'shared' if mounts.is_shared(one.fstype, one.source, one.options) else 'local'}"
        for one in found
    ]
    golden("proc/mounts.txt", "\n".join(lines))


def test_an_engine_of_four_processes(golden: Golden) -> None:
    lines = []
    rss, pss = [], []
    for one in json.loads(captured("vllm-cpu-process-group.json")).values():
        by_rss, by_pss = process_memory.parse_status(one["status"]), process_memory.parse_rollup(one["smaps_rollup"])
        assert by_rss is not None
        assert by_pss is not None
        lines += [process(proc.parse_stat(one["stat"])), f"  RSS  {resident(by_rss)}", f"  PSS  {resident(by_pss)}"]
        rss.append(by_rss)
        pss.append(by_pss)
    lines += ["together", f"  RSS  {resident(process_memory.summed(rss))}"]
    lines += [f"  PSS  {resident(process_memory.summed(pss))}"]
    golden("proc/engine-group.txt", "\n".join(lines))


def test_every_capture_is_read_by_a_test_here() -> None:
    text = Path(__file__).read_text()
    recorded = {"group-pair.json"}  # two looks at one group: tests/unit/hardware/test_group_cpu.py
    assert [path.name for path in FOLDER.iterdir() if path.name not in text and path.name not in recorded] == []
