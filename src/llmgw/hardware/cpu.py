"""Processors: what the machine has, what of it we may use, and how busy it is."""

import os
import platform
from collections.abc import Collection
from pathlib import Path

from llmgw.hardware.cgroup import CpuLimit, cpu_limit, hierarchies
from llmgw.hardware.mounts import read_mounts
from llmgw.schema.node import Host
from llmgw.schema.value import Value

_SYS_CPU = Path("/sys/devices/system/cpu")
_IDLE, _IOWAIT = 3, 4
DECISIVE_FLAGS = (
    "avx",
    "avx2",
    "fma",
    "f16c",
    "bmi2",
    "avx512f",
    "avx512bw",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "asimd",
    "sve",
)
"""Instruction sets that engines are built for."""


def discover() -> Host:
    """Describe operating system and processor of this machine."""
    model, flags = parse_cpuinfo(Path("/proc/cpuinfo").read_text(errors="replace"))
    limit = read_limit()
    return Host(
        os=_os_name(),
        kernel=platform.release(),
        machine=platform.machine(),
        cpu_model=model,
        cores_physical=physical_cores(_SYS_CPU),
        cores_logical=_online(_SYS_CPU),
        cores_usable=usable_cores(len(os.sched_getaffinity(0)), limit.cores if limit else None),
        cpu_flags=flags,
    )


def parse_cpuinfo(text: str) -> tuple[str | None, tuple[str, ...]]:
    """Give the model's name and the decisive flags of the first processor."""
    model: str | None = None
    flags: frozenset[str] = frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        key = name.strip()
        if key == "model name" and model is None:
            model = value.strip()
        elif key in ("flags", "Features") and not flags:
            flags = frozenset(value.split())
    return model, tuple(flag for flag in DECISIVE_FLAGS if flag in flags)


def usable_cores(allowed: int, quota: float | None) -> float:
    """Cap the processors the scheduler lets us run on by the quota in cores."""
    return float(allowed) if quota is None else min(float(allowed), quota)


def physical_cores(root: Path) -> int | None:
    """Count cores, hyper-threads of one core once; `None` when the kernel does not tell."""
    cores = set()
    for topology in root.glob("cpu[0-9]*/topology"):
        try:
            package = (topology / "physical_package_id").read_text().strip()
            core = (topology / "core_id").read_text().strip()
        except OSError:
            continue  # an offline processor has no topology
        cores.add((package, core))
    return len(cores) or None


def parse_cpu_list(text: str) -> int:
    """Count the processors of a list such as `0-3,8`."""
    count = 0
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            count += int(last or first) - int(first) + 1
    return count


class CpuTimes(Value, frozen=True, kw_only=True):
    """Busy and total ticks of the processors we may run on, since boot."""

    busy: int
    total: int


def parse_times(text: str, allowed: Collection[int] | None = None) -> CpuTimes | None:
    """Parse /proc/stat: the processors named by `allowed`, or all together when it is absent or names an unknown one.

    Waiting for a disk is idle: the processor could work. Stolen time is busy: the hypervisor gave the processor to
    somebody else, so nothing is left of it for us. Guest time is part of user time already.
    """
    lines = {fields[0]: fields[1:9] for fields in map(str.split, text.splitlines()) if fields}
    names = [f"cpu{number}" for number in allowed or ()]
    if not names or not lines.keys() >= set(names):  # a container may show its processors under other numbers
        names = ["cpu"]
    rows = [[int(field) for field in lines.get(name, ())] for name in names]
    if any(len(row) <= _IOWAIT for row in rows):
        return None
    total = sum(map(sum, rows))
    return CpuTimes(busy=total - sum(row[_IDLE] + row[_IOWAIT] for row in rows), total=total)


def read_times() -> CpuTimes | None:
    """Read the counters of the processors this process may run on."""
    return parse_times(Path("/proc/stat").read_text(), os.sched_getaffinity(0))


def busy_percent(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """Give the share of the processors that worked between two readings, 0 to 100; `None` when it cannot be told."""
    if before is None or after is None or after.total <= before.total:
        return None
    share = (after.busy - before.busy) / (after.total - before.total)
    return round(100.0 * min(1.0, max(0.0, share)), 1)


def quota_percent(cores: float, used_s: float, span_s: float) -> float | None:
    """Give the share of a quota of `cores` that was used in a span, 0 to 100: a group may overdraw it for a moment."""
    if cores <= 0 or span_s <= 0:
        return None
    return round(100.0 * min(1.0, max(0.0, used_s / (cores * span_s))), 1)


def read_limit() -> CpuLimit | None:
    """Give the tightest processor quota this process lives under; `None` without one."""
    return cpu_limit(hierarchies(read_mounts(), Path("/proc/self/cgroup").read_text()))


def parse_loadavg(text: str) -> tuple[float, float, float] | None:
    """Give the load averages of 1, 5 and 15 minutes from /proc/loadavg. Tasks that wait for disks count in them."""
    try:
        one, five, fifteen = (float(field) for field in text.split()[:3])
    except ValueError:
        return None
    return one, five, fifteen


def _online(root: Path) -> int | None:
    try:
        return parse_cpu_list((root / "online").read_text())
    except OSError:
        return os.cpu_count()


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()
