"""Where weights lie on this node: configured folders, and paths that models ask for."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from llmgw.schema.weights import WatchedPath, Weights
from llmgw.weights import gguf

_PART = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.gguf$")


class Shelf:
    """Looks at weights files and remembers what it read while a file stays the same.

    Blocks on the file system: to be called from a thread.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[tuple[int, ...], Weights]] = {}

    def scan(self, folders: Iterable[str]) -> tuple[Weights, ...]:
        """Look for model files in the folders and below, sorted by path. A folder that is not there has none."""
        found: dict[str, Weights] = {}
        for folder in folders:
            for path in _files(folder):
                weights = self._inspect(path)
                if weights is not None:
                    found[path] = weights
        self._seen = {path: seen for path, seen in self._seen.items() if Path(path).exists()}
        return tuple(found[path] for path in sorted(found))

    def look(self, path: str) -> WatchedPath:
        """Look at one path that a model asks for, wherever it lies."""
        try:
            is_folder = Path(path).is_dir()
            present = is_folder or Path(path).exists()
        except OSError as error:
            return WatchedPath(path=path, present=False, problem=f"{path} cannot be looked at: {error.strerror}")
        if not present:
            return WatchedPath(path=path, present=False, problem=f"there is nothing at {path} on this node")
        if is_folder:
            return WatchedPath(path=path, present=True, problem=f"{path} is a folder, not a GGUF file")
        weights = self._inspect(path)
        if weights is None:
            return WatchedPath(path=path, present=False, problem=f"{path} vanished while it was looked at")
        return WatchedPath(path=path, present=True, weights=weights, problem=weights.problem)

    def _inspect(self, path: str) -> Weights | None:
        try:
            stamp = _stamp(path)
        except OSError:
            return None  # it vanished between listing and looking
        seen = self._seen.get(path)
        if seen is not None and seen[0] == stamp:
            return seen[1]
        weights = _whole(gguf.inspect(path))
        self._seen[path] = (stamp, weights)
        return weights


def scan(folders: Iterable[str]) -> tuple[Weights, ...]:
    """Look once, without memory of earlier looks."""
    return Shelf().scan(folders)


def parts(path: str) -> tuple[str, ...]:
    """Give all files of a model split into parts, whose first is `path`; just `path` for others."""
    match = _PART.match(Path(path).name)
    if match is None:
        return (path,)
    total = int(match["total"])
    names = (f"{match['stem']}-{number:05d}-of-{total:05d}.gguf" for number in range(1, total + 1))
    return tuple(str(Path(path).parent / name) for name in names)


def _whole(weights: Weights) -> Weights:
    """Count the other parts of a split model in."""
    files = parts(weights.path)
    missing = [Path(file).name for file in files if not Path(file).exists()]
    if len(files) == 1 or weights.problem is not None:
        return weights
    if missing:
        return msgspec.structs.replace(weights, problem=f"lacks {len(missing)} of its parts, first {missing[0]}")
    return msgspec.structs.replace(weights, size_bytes=sum(Path(file).stat().st_size for file in files))


def _files(folder: str) -> Iterator[str]:
    walked: set[str] = set()
    for where, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(where)
        if real in walked:
            folders.clear()  # a link that leads back up
            continue
        walked.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            match = _PART.match(name)
            if name.endswith(".gguf") and (match is None or int(match["number"]) == 1):
                yield str(Path(where, name))


def _stamp(path: str) -> tuple[int, ...]:
    """What changes when any part of the model does."""
    stamp: list[int] = []
    for file in parts(path):
        try:
            stat = Path(file).stat()
        except FileNotFoundError:
            if file == path:
                raise
            continue
        stamp += (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return tuple(stamp)
