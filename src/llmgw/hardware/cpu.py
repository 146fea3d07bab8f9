"""Processors: what the machine has, what of it we may use, and how busy it is."""

import os
import platform
from pathlib import Path

from llmgw.hardware.cgroup import cpu_limit, hierarchies
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
    quota = cpu_limit(hierarchies(read_mounts(), Path("/proc/self/cgroup").read_text()))
    return Host(
        os=_os_name(),
        kernel=platform.release(),
        machine=platform.machine(),
        cpu_model=model,
        cores_physical=physical_cores(_SYS_CPU),
        cores_logical=_online(_SYS_CPU),
        cores_usable=usable_cores(len(os.sched_getaffinity(0)), quota),
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
    """Busy and total ticks of all processors since boot."""

    busy: int
    total: int


def parse_times(text: str) -> CpuTimes | None:
    """Parse the first line of /proc/stat. Waiting for I/O is idle; guest time is part of user time already."""
    name, *fields = text.split("\n", 1)[0].split()
    ticks = [int(field) for field in fields[:8]]
    if name != "cpu" or len(ticks) <= _IOWAIT:
        return None
    idle = ticks[_IDLE] + ticks[_IOWAIT]
    return CpuTimes(busy=sum(ticks) - idle, total=sum(ticks))


def read_times() -> CpuTimes | None:
    """Read the counters of this machine."""
    return parse_times(Path("/proc/stat").read_text())


def busy_percent(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """Give the share of all processors that worked between two readings, 0 to 100; `None` when it cannot be told."""
    if before is None or after is None or after.total <= before.total:
        return None
    return round(100.0 * max(0, after.busy - before.busy) / (after.total - before.total), 1)


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
