"""What the whole node is doing: processors, load averages, memory and pressure, from /proc."""

import os
import time
from pathlib import Path

from llmgw.config import disk
from llmgw.hardware import cgroup, cpu, memory, pressure
from llmgw.hardware.cgroup import CpuLimit
from llmgw.hardware.cpu import CpuTimes
from llmgw.schema.report import Load
from llmgw.schema.value import Value


class CpuLook(Value, frozen=True, kw_only=True):
    """One look at the processors."""

    at: float
    """Monotonic seconds."""
    times: CpuTimes | None
    limit: CpuLimit | None = None
    """The quota this node lives under, when that is less than its processors."""
    charged_s: float | None = None
    """Processor seconds charged to the group with the quota."""


class NodeMeter:
    """Looks at the node; each look tells of the time since the one before."""

    def __init__(self, data_dir: Path | None = None) -> None:
        self._data_dir = data_dir
        self._before: CpuLook | None = None

    def measure(self) -> Load:
        """Look now. The share of busy processors is unknown the first time."""
        before, self._before = self._before, _look()
        averages = cpu.parse_loadavg(Path("/proc/loadavg").read_text())
        found = memory.read()
        return Load(
            age_s=0.0,
            cpu_percent=busy_percent(before, self._before) if before is not None else None,
            load1=averages[0] if averages else None,
            load5=averages[1] if averages else None,
            load15=averages[2] if averages else None,
            memory_used_bytes=found.used_bytes,
            memory_available_bytes=found.available_bytes,
            pressure=pressure.read(),
            data_dir_free_bytes=disk.read(self._data_dir).free_bytes if self._data_dir is not None else None,
        )


def busy_percent(before: CpuLook, after: CpuLook) -> float | None:
    """Give the busy share of the processors the node may use: of its quota where one binds, else of what is there."""
    limit = after.limit
    if limit is None or before.limit != limit or before.charged_s is None or after.charged_s is None:
        return cpu.busy_percent(before.times, after.times)
    return cpu.quota_percent(limit.cores, after.charged_s - before.charged_s, after.at - before.at)


def _look() -> CpuLook:
    limit = cpu.read_limit()
    if limit is not None and limit.cores >= len(os.sched_getaffinity(0)):
        limit = None
    return CpuLook(
        at=time.monotonic(),
        times=cpu.read_times(),
        limit=limit,
        charged_s=cgroup.charged_s(limit.folder) if limit is not None else None,
    )
