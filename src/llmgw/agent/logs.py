"""Logs of engines: one file per start, private; read from their ends."""

import os
import shutil
import time
from collections.abc import Collection
from pathlib import Path

KEPT = 5
"""Newest logs kept per shard, beside the first, which often holds the cause."""
KEPT_S = 14 * 24 * 3600
READ_BYTES = 256 * 1024


def open_log(path: Path) -> int:
    """Make the log of a new start and give its descriptor. A log of an earlier start of the same attempt goes."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)


def size(path: Path) -> int:
    """Give the size in bytes, 0 when there is no log."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_tail(path: Path, limit: int = READ_BYTES) -> str:
    """Read the last `limit` bytes, whole lines only when it was cut; empty when there is no log."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - limit))
            data = file.read(limit)
    except OSError:
        return ""
    if end > limit:
        data = data.partition(b"\n")[2]
    return data.decode(errors="replace")


def read_ends(path: Path, limit: int = READ_BYTES) -> str:
    """Read the first and the last `limit` bytes: the first error is the cause, the last line tells the end."""
    if size(path) <= 2 * limit:
        return read_tail(path, 2 * limit)
    with path.open("rb") as file:
        head = file.read(limit).rpartition(b"\n")[0]
    return head.decode(errors="replace") + "\n" + read_tail(path, limit)


def newest(folder: Path) -> int | None:
    """Give the newest attempt there is a log of."""
    return max(_attempts(folder), default=None)


def prune(folder: Path) -> None:
    """Remove all logs but the first and the newest ones."""
    attempts = sorted(_attempts(folder))
    for attempt in attempts[1:-KEPT]:
        (folder / f"{attempt}.log").unlink(missing_ok=True)


def sweep(root: Path, known: Collection[str]) -> None:
    """Remove the logs of shards that are gone for two weeks; their ids never come back."""
    for folder in root.glob("*"):
        if folder.name in known or time.time() - folder.stat().st_mtime < KEPT_S:
            continue
        shutil.rmtree(folder, ignore_errors=True)


def _attempts(folder: Path) -> list[int]:
    return [int(path.stem) for path in folder.glob("*.log") if path.stem.isdigit()]
