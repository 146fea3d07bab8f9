"""Memory the machine has and what of it this process may really use."""

from collections.abc import Iterable
from pathlib import Path

from llmgw.hardware.cgroup import MemoryLimit, hierarchies, memory_limits
from llmgw.hardware.mounts import read_mounts
from llmgw.schema.value import Value


class Memory(Value, frozen=True, kw_only=True):
    """Memory in bytes; `None` is unknown."""

    total_bytes: int | None
    """The tightest limit applied."""
    available_bytes: int | None
    """What can be had without swapping, within the tightest limit."""

    @property
    def used_bytes(self) -> int | None:
        """What is taken and cannot be had back."""
        if self.total_bytes is None or self.available_bytes is None:
            return None
        return self.total_bytes - self.available_bytes


def read() -> Memory:
    """Look at this machine."""
    tree = hierarchies(read_mounts(), Path("/proc/self/cgroup").read_text())
    return usable(Path("/proc/meminfo").read_text(), memory_limits(tree))


def usable(meminfo: str, limits: Iterable[MemoryLimit]) -> Memory:
    """Apply the limits to what the machine has. A limit above the machine's memory is none."""
    values = parse_meminfo(meminfo)
    total, available = values.get("MemTotal"), values.get("MemAvailable")
    if available is None and "MemFree" in values:  # lxcfs and old kernels leave MemAvailable out
        available = values["MemFree"] + values.get("Cached", 0) + values.get("SReclaimable", 0)
    for limit in limits:
        if total is not None and limit.limit_bytes >= total:
            continue
        total = limit.limit_bytes
        room = limit.limit_bytes - max(0, (limit.used_bytes or 0) - limit.reclaimable_bytes)
        available = max(0, room if available is None else min(available, room))
    return Memory(total_bytes=total, available_bytes=available)


def parse_meminfo(text: str) -> dict[str, int]:
    """Parse /proc/meminfo into bytes."""
    values = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split()
        if fields and fields[0].isdigit():
            values[name] = int(fields[0]) * (1024 if fields[-1] == "kB" else 1)
    return values
