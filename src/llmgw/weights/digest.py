"""Digests of weights: SHA-256 of their content, by which equal weights are told on different nodes and paths."""

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from llmgw.schema.value import Value

CHUNK = 4 * 1024 * 1024
"""Bytes read at a time; hashing so many gives other threads their turn."""
MIB = 1024 * 1024


class Stamp(Value, frozen=True, kw_only=True):
    """What changes when a file's content does. The device is left out: network mounts are numbered anew each boot."""

    size: int
    mtime_ns: int
    inode: int


class FileChanged(Exception):
    """The file became another one while it was read, or reading was called off."""


def stamp(path: str) -> Stamp:
    """Read a file's stamp. Raises `OSError`."""
    found = Path(path).stat()
    return Stamp(size=found.st_size, mtime_ns=found.st_mtime_ns, inode=found.st_ino)


def digest_of(
    path: str, *, mib_per_s: float, is_wanted: Callable[[], bool], sleep: Callable[[float], None] = time.sleep
) -> tuple[Stamp, str]:
    """Read a file slowly and give its stamp and SHA-256.

    At most `mib_per_s`, and at least half of the time resting. Raises `OSError`, and `FileChanged` when the file
    changed meanwhile or `is_wanted` says no.
    """
    before = stamp(path)
    made = hashlib.sha256()
    with Path(path).open("rb", buffering=0) as file:
        while True:
            began = time.monotonic()
            chunk = file.read(CHUNK)
            if not chunk:
                break
            made.update(chunk)
            _forget(file.fileno(), file.tell() - len(chunk), len(chunk))
            took = time.monotonic() - began
            sleep(max(took, len(chunk) / (mib_per_s * MIB) - took))
            if not is_wanted():
                raise FileChanged(path)
    if stamp(path) != before:
        raise FileChanged(path)
    return before, made.hexdigest()


def combined(files: Sequence[tuple[str, str]]) -> str:
    """Give one digest for a model's files, pairs of name and digest: of one file, its own.

    Of several: that of what `sha256sum` prints for them, sorted by name.
    """
    if len(files) == 1:
        return files[0][1]
    listing = "".join(f"{digest}  {name}\n" for name, digest in sorted(files))
    return hashlib.sha256(listing.encode()).hexdigest()


def _forget(descriptor: int, offset: int, length: int) -> None:
    """Leave the page cache to those who need it. Pages that an engine has mapped stay."""
    os.posix_fadvise(descriptor, offset, length, os.POSIX_FADV_DONTNEED)
