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
    """What can be had without swapping, within all limits and what the machine has left."""
    used_bytes: int | None
    """What is taken and cannot be had back: of the machine, or under the tightest limit of the group it is on."""


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
    used = None if total is None or available is None else total - available
    real = [limit for limit in limits if total is None or limit.limit_bytes < total]
    if not real:
        return Memory(total_bytes=total, available_bytes=available, used_bytes=used)
    rooms = [room for room in (available, *map(_room, real)) if room is not None]
    tightest = min(real, key=lambda limit: limit.limit_bytes)
    return Memory(
        total_bytes=tightest.limit_bytes,
        available_bytes=min(rooms, default=None),
        used_bytes=_taken(tightest),
    )


def _taken(limit: MemoryLimit) -> int | None:
    return None if limit.used_bytes is None else max(0, limit.used_bytes - limit.reclaimable_bytes)


def _room(limit: MemoryLimit) -> int | None:
    taken = _taken(limit)
    return None if taken is None else max(0, limit.limit_bytes - taken)


def parse_meminfo(text: str) -> dict[str, int]:
    """Parse /proc/meminfo into bytes."""
    values = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split()
        if fields and fields[0].isdigit():
            values[name] = int(fields[0]) * (1024 if fields[-1] == "kB" else 1)
    return values
