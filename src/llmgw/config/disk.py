"""How much room the filesystem of a data folder has left, and whether that is none."""

import errno
import os
from pathlib import Path

from llmgw.schema.value import Value

FULL_BYTES = 1024 * 1024
"""Less than this is no room: the first lines of one engine's log and the state of its start may take as much."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Room(Value, frozen=True, kw_only=True):
    """What is left on a filesystem for this user."""

    total_bytes: int
    free_bytes: int
    free_files: int | None
    """Files that could still be made; `None` where the filesystem does not limit them."""

    @property
    def is_full(self) -> bool:
        """True when nothing more can be begun here."""
        return self.free_bytes < min(FULL_BYTES, self.total_bytes // 16) or self.free_files == 0


def read(path: Path) -> Room:
    """Read what is left where `path` lies. Raises `OSError`."""
    found = os.statvfs(path)
    # What is kept back for root is there for root.
    root = os.geteuid() == 0
    return Room(
        total_bytes=found.f_blocks * found.f_frsize,
        free_bytes=(found.f_bfree if root else found.f_bavail) * found.f_frsize,
        free_files=(found.f_ffree if root else found.f_favail) if found.f_files else None,
    )


def is_full(path: Path) -> bool:
    """True when there is no room where `path` lies; what cannot be looked at is not known to be full."""
    try:
        return read(path).is_full
    except OSError:
        return False


def is_want_of_room(error: OSError) -> bool:
    """True for an error that says that the disk, or the quota on it, is full."""
    return error.errno in _FULL
