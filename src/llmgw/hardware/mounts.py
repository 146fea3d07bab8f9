"""Mounts: what storage a folder lies on, whether it is shared, how much is free."""

import os
import re
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from llmgw.schema.value import Value
from llmgw.schema.weights import Storage

SHARED = frozenset(
    {
        *("nfs", "nfs4", "vastnfs", "cifs", "smb3", "9p", "virtiofs", "afs"),
        *("lustre", "beegfs", "ceph", "gpfs", "wekafs", "orangefs", "glusterfs", "panfs"),
        *("ocfs2", "gfs2"),
    }
)
"""Types whose files other machines see. Through FUSE all kinds look alike to statfs; only this table has the name."""
LOCAL_FUSE = frozenset(("fuseblk", "fuse.ntfs-3g", "fuse.mergerfs", "fuse.bindfs"))
_ESCAPE = re.compile(r"\\([0-7]{3})")
_REMOTE_SOURCE = re.compile(r"^(//[^/]+/|[^/\s]+:/)")
STATVFS_TIMEOUT_S = 3.0
"""A dead file server blocks statvfs for minutes; a live one answers in milliseconds."""


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
    return parse_mountinfo(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))


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


def storage_of(folders: Iterable[str], mounts: Sequence[Mount]) -> tuple[Storage, ...]:
    """Describe the storage below the folders, each filesystem once. Blocks up to 3 s for each that does not answer."""
    found: dict[str, Mount] = {}
    for folder in folders:
        mount = covering(mounts, os.path.realpath(folder))
        if mount is not None:
            found.setdefault(mount.device, mount)
    return tuple(_describe(mount) for mount in sorted(found.values(), key=lambda mount: mount.point))


def _describe(mount: Mount) -> Storage:
    sizes = _statvfs(mount.point)
    if isinstance(sizes, str):
        total = free = None
    else:
        total, free = sizes.f_blocks * sizes.f_frsize, sizes.f_bavail * sizes.f_frsize
    return Storage(
        mount=mount.point,
        source=mount.source,
        fstype=mount.fstype,
        shared=is_shared(mount.fstype, mount.source, mount.options),
        total_bytes=total,
        free_bytes=free,
        problem=sizes if isinstance(sizes, str) else None,
    )


def _statvfs(point: str) -> os.statvfs_result | str:
    """Ask for sizes, in a thread that is left behind when the filesystem does not answer; a text is the problem."""
    answer: list[os.statvfs_result | str] = []

    def ask() -> None:
        try:
            answer.append(os.statvfs(point))
        except OSError as error:
            answer.append(f"{point} cannot be looked at: {error.strerror}")

    thread = threading.Thread(target=ask, name=f"statvfs {point}", daemon=True)
    thread.start()
    thread.join(STATVFS_TIMEOUT_S)
    return answer[0] if answer else f"{point} does not answer within {STATVFS_TIMEOUT_S:.0f} s"


def _is_within(path: str, point: str) -> bool:
    return point in ("/", path) or path.startswith(point.rstrip("/") + "/")


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
