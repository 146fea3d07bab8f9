"""Control groups: the limits this process lives under, and groups of our own (version 2) for engines."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from llmgw.hardware.mounts import Mount
from llmgw.schema.value import Value

FOLDER = "llmgw"
"""All our groups lie in this folder of the cgroup2 mount, outside the agent's own group."""


class Hierarchy(Value, frozen=True, kw_only=True):
    """Where this process sits in one hierarchy: its folders from its own up to the mount."""

    unified: bool
    """Version 2."""
    controllers: tuple[str, ...]
    """Version 1 only; in version 2 all controllers share one tree."""
    folders: tuple[str, ...]


def hierarchies(mounts: Iterable[Mount], membership: str) -> tuple[Hierarchy, ...]:
    """Match `/proc/self/cgroup` with the mounts. Hybrid machines have both versions at once."""
    found = []
    for number, names, path in _membership(membership):
        unified = number == "0" and not names
        mount = next((m for m in mounts if _carries(m, names, unified=unified)), None)
        if mount is None:
            continue
        folders = _upwards(mount.point, mount.root, path)
        found.append(Hierarchy(unified=unified, controllers=names, folders=folders))
    return tuple(found)


class CpuLimit(Value, frozen=True, kw_only=True):
    """A processor quota, and the group it is on."""

    cores: float
    folder: str


def cpu_limit(tree: Iterable[Hierarchy]) -> CpuLimit | None:
    """Give the tightest processor quota; `None` without one."""
    limits = []
    for hierarchy in tree:
        for folder in hierarchy.folders:
            cores = _quota(hierarchy, folder)
            if cores is not None:
                limits.append(CpuLimit(cores=cores, folder=folder))
    return min(limits, key=lambda limit: limit.cores, default=None)


def charged_s(folder: str) -> float | None:
    """Give the processor seconds charged to a group since it was made, of ended processes too; `None` if not told."""
    used = _stat_value(_read(folder, "cpu.stat"), "usage_usec")
    if used is not None:
        return used / 1e6
    used_ns = _read(folder, "cpuacct.usage")  # version 1, where cpu and cpuacct share a tree, as they mostly do
    return int(used_ns) / 1e9 if used_ns.isdigit() else None


def parse_cpu_max(text: str) -> float | None:
    """Parse `quota period`; `None` for `max`, -1 and what is not there."""
    quota, _, period = text.partition(" ")
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(quota) / int(period)


class MemoryLimit(Value, frozen=True, kw_only=True):
    """One memory limit above this process."""

    limit_bytes: int
    used_bytes: int | None
    reclaimable_bytes: int
    """Inactive file cache, which the kernel drops before it refuses memory."""


def memory_limits(tree: Iterable[Hierarchy]) -> tuple[MemoryLimit, ...]:
    """Give every memory limit on the way up."""
    found = []
    for hierarchy in tree:
        if not hierarchy.unified and "memory" not in hierarchy.controllers:
            continue
        for folder in hierarchy.folders:
            limit = _read(folder, "memory.max" if hierarchy.unified else "memory.limit_in_bytes")
            if not limit.isdigit():
                continue
            used = _read(folder, "memory.current" if hierarchy.unified else "memory.usage_in_bytes")
            stat = _read(folder, "memory.stat")
            found.append(
                MemoryLimit(
                    limit_bytes=int(limit),
                    used_bytes=int(used) if used.isdigit() else None,
                    reclaimable_bytes=_stat_value(stat, "inactive_file" if hierarchy.unified else "total_inactive_file")
                    or 0,
                )
            )
    return tuple(found)


def unified_mount(mounts: Iterable[Mount]) -> str | None:
    """Give the cgroup2 mount in which we may make groups with `cgroup.kill`; `None` when there is none."""
    for mount in mounts:
        if mount.fstype == "cgroup2" and "rw" in mount.options and os.access(mount.point, os.W_OK):
            return mount.point
    return None


def group_path(mount: str | None, name: str) -> str | None:
    """Where a group of ours lies, whether or not it is there."""
    return str(Path(mount, FOLDER, name)) if mount is not None else None


class ControlGroup:
    """One group of our own: all processes that descend from its first, whatever session they move to."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._path = Path(path)

    @classmethod
    def create(cls, mount: str, name: str) -> "ControlGroup | None":
        """Make the group; `None` when the machine does not let us (no root, no delegation, kernel before 5.14)."""
        path = Path(mount, FOLDER, name)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError:
            return None
        if not (path / "cgroup.kill").exists():
            with contextlib.suppress(OSError):
                path.rmdir()
            return None
        return cls(str(path))

    def add(self, pid: int) -> bool:
        """Move a process in, with what it forks later. False when the kernel refuses or the process is gone."""
        try:
            (self._path / "cgroup.procs").write_text(str(pid))
        except OSError:
            return False
        return True

    def members(self) -> frozenset[int]:
        """Give the pids in the group and in groups below it; zombies are not among them."""
        pids: set[int] = set()
        for folder, _, _ in os.walk(self.path):
            pids.update(int(line) for line in _read(folder, "cgroup.procs").split())
        return frozenset(pids)

    def charged_s(self) -> float | None:
        """Give the processor seconds charged to the group and those below it, of ended processes too."""
        return charged_s(self.path)

    def kill(self) -> None:
        """Send SIGKILL to all of them at once."""
        with contextlib.suppress(OSError):  # gone already, which is what we want
            (self._path / "cgroup.kill").write_text("1")

    def remove(self) -> bool:
        """Remove the empty group. False when it is not empty yet: the kernel lets go of a process after its end."""
        for folder, _, _ in os.walk(self.path, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
        return not self._path.exists()


def _membership(text: str) -> Iterable[tuple[str, tuple[str, ...], str]]:
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if path:
            yield number, tuple(names.split(",")) if names else (), path


def _carries(mount: Mount, names: tuple[str, ...], *, unified: bool) -> bool:
    if unified:
        return mount.fstype == "cgroup2"
    return mount.fstype == "cgroup" and all(name in mount.options for name in names)


def _upwards(point: str, root: str, path: str) -> tuple[str, ...]:
    """Give the folders from the process's group to the mount. A path outside the mounted part is the mount itself."""
    if root != "/":
        path = path[len(root) :] if path == root or path.startswith(root + "/") else "/"
    folder, top = Path(point, path.strip("/")), Path(point)
    if not folder.is_dir():
        return (point,)  # a namespace shows another tree than the membership names
    chain = [folder]
    while chain[-1] != top:
        chain.append(chain[-1].parent)
    return tuple(str(one) for one in chain)


def _read(folder: str, name: str) -> str:
    try:
        return Path(folder, name).read_text().strip()
    except OSError:
        return ""


def _quota(hierarchy: Hierarchy, folder: str) -> float | None:
    if hierarchy.unified:
        return parse_cpu_max(_read(folder, "cpu.max"))
    if "cpu" in hierarchy.controllers:
        return parse_cpu_max(f"{_read(folder, 'cpu.cfs_quota_us')} {_read(folder, 'cpu.cfs_period_us')}")
    return None


def _stat_value(text: str, key: str) -> int | None:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.isdigit():
            return int(value)
    return None
