"""Mounts: what storage a folder lies on, whether it is shared, how much is free."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from llmgw.schema.value import Value
from llmgw.schema.weights import Storage

SHARED = frozenset(
    {
        *("nfs", "nfs4", "vastnfs", "cifs", "smb3", "smbfs", "9p", "virtiofs", "afs", "coda"),
        *("lustre", "beegfs", "ceph", "gpfs", "wekafs", "orangefs", "pvfs2", "glusterfs", "panfs"),
        *("ocfs2", "gfs2", "acfs"),
    }
)
"""Types whose files other machines see. Through FUSE all kinds look alike to statfs; only this table has the name."""
LOCAL_FUSE = frozenset(
    {
        *("fuseblk", "fuse.ntfs-3g", "fuse.mergerfs", "fuse.bindfs", "fuse.lxcfs", "fuse.fuse-overlayfs"),
        *("fuse.squashfuse", "fuse.snapfuse", "fuse.gocryptfs", "fusectl"),
    }
)
_ESCAPE = re.compile(r"\\([0-7]{3})")
_REMOTE_SOURCE = re.compile(r"^(//[^/]+/|[^/\s]+:/)")


class Mount(Value, frozen=True, kw_only=True):
    """One line of mountinfo."""

    device: str
    """`major:minor`: one filesystem mounted twice has it twice."""
    root: str
    """Which part of the filesystem is mounted."""
    point: str
    fstype: str
    source: str
    options: tuple[str, ...]


class Sizes(Value, frozen=True, kw_only=True):
    """Of a filesystem."""

    total_bytes: int
    free_bytes: int


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """Parse `/proc/<pid>/mountinfo`. The fields before ` - ` vary in number; blanks are octal escapes."""
    mounts = []
    for line in text.splitlines():
        head, _, tail = line.partition(" - ")
        try:
            _, _, device, root, point, own_options, *_ = head.split()
            fstype, source, *rest = tail.split(" ")
        except ValueError:
            continue  # no line of a mount table
        options = own_options.split(",") + [option for group in rest for option in group.split(",")]
        mounts.append(
            Mount(
                device=device,
                root=_unescape(root),
                point=_unescape(point),
                fstype=fstype,
                source=_unescape(source),
                options=tuple(options),
            )
        )
    return tuple(mounts)


def read_mounts() -> tuple[Mount, ...]:
    """Read this process's mounts."""
    return parse_mountinfo(Path("/proc/self/mountinfo").read_text(errors="backslashreplace"))


def is_shared(fstype: str, source: str, options: Sequence[str] = ()) -> bool:
    """True when other machines may see the same files. An unknown FUSE type counts as shared: the safe side."""
    if fstype in SHARED or "_netdev" in options:
        return True
    if fstype.startswith("fuse") and fstype not in LOCAL_FUSE:
        return True
    return bool(_REMOTE_SOURCE.match(source))


def covering(mounts: Iterable[Mount], path: str) -> Mount | None:
    """Find the mount a real path lies on: the longest mount point above it, the latest of equals."""
    best: Mount | None = None
    for mount in mounts:
        if not _is_within(path, mount.point):
            continue
        if best is None or len(mount.point) >= len(best.point):
            best = mount
    return best


def read_sizes(point: str) -> Sizes:
    """Ask a filesystem how large it is. Raises `OSError`; blocks for minutes when its file server is gone."""
    found = os.statvfs(point)
    # What only root may fill (f_bfree - f_bavail) is not free.
    return Sizes(total_bytes=found.f_blocks * found.f_frsize, free_bytes=found.f_bavail * found.f_frsize)


def describe(mount: Mount, sizes: Sizes | None, *, problem: str | None = None) -> Storage:
    """Describe a mount as storage of weights; `None`: its sizes are not known."""
    return Storage(
        mount=mount.point,
        source=mount.source,
        fstype=mount.fstype,
        shared=is_shared(mount.fstype, mount.source, mount.options),
        total_bytes=None if sizes is None else sizes.total_bytes,
        free_bytes=None if sizes is None else sizes.free_bytes,
        problem=problem,
    )


def _is_within(path: str, point: str) -> bool:
    return point in ("/", path) or path.startswith(point.rstrip("/") + "/")


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
