"""Where weights lie on this node: configured folders, and paths that models ask for."""

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from llmgw.schema.value import Value
from llmgw.schema.weights import WatchedPath, Weights, WeightsFormat
from llmgw.weights import gguf_parts, safetensors
from llmgw.weights.files import HUB_DOWNLOADS, UNFINISHED, is_unfinished_below, printable, unreadable

GGUF = gguf_parts.SUFFIX
_CONTROL = ".aria2"
"""Of a downloader that gives the file its full size at once: while this lies beside it, it is not whole."""
MOST = 2**62
"""No context, cache or vocabulary is larger, and JSON's integers end soon after."""
MOST_PROBLEMS = 5
"""Told of one folder; the rest is counted."""


class Survey(Value, frozen=True, kw_only=True):
    """What one folder holds, and what keeps it from being seen whole."""

    weights: tuple[Weights, ...] = ()
    problems: tuple[str, ...] = ()


class Shelf:
    """Looks at weights and remembers what it read while the files stay the same.

    Blocks on the file system: to be called from a thread.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[tuple[int, ...], Weights]] = {}

    def survey(self, folder: str) -> Survey:
        """Look for models in a folder and below. Raises nothing: what cannot be looked at is a problem."""
        found: dict[str, Weights] = {}
        problems: list[str] = []
        for path in _models(folder, problems):
            if printable(path) != path:
                problems.append(f"{path} has a name that is not UTF-8: rename it")
                continue
            weights = self.inspect(path)
            if weights is not None:
                found[path] = weights
        self._seen = {path: seen for path, seen in self._seen.items() if path in found}
        more = len(problems) - MOST_PROBLEMS
        told = [*problems[:MOST_PROBLEMS], *([f"and {more} more like these"] if more > 0 else [])]
        return Survey(weights=tuple(found[path] for path in sorted(found)), problems=tuple(map(printable, told)))

    def look(self, path: str) -> WatchedPath:
        """Look at one path that a model asks for, wherever it lies."""
        try:
            is_folder = _exists(path) and Path(path).is_dir()
            names = [entry.name for entry in Path(path).iterdir()] if is_folder else []
        except FileNotFoundError:
            link = _dangling(path)
            problem = f"there is nothing at {path} on this node" if link is None else f"{path} {link.problem}"
            return WatchedPath(path=path, present=False, problem=problem)
        except OSError as error:
            return WatchedPath(path=path, present=False, problem=f"{path} cannot be looked at: {error.strerror}")
        if is_folder and not safetensors.is_model(names):
            return WatchedPath(path=path, present=True, problem=f"{path} is a folder without a model: {_lack(names)}")
        weights = self.inspect(path)
        if weights is None:
            return WatchedPath(path=path, present=False, problem=f"{path} vanished while it was looked at")
        return WatchedPath(path=path, present=True, weights=weights, problem=weights.problem)

    def inspect(self, path: str) -> Weights | None:
        """Describe the model at a path, read only when it changed; `None` when it is gone."""
        try:
            stamp = _stamp(path)
        except FileNotFoundError:
            return _dangling(path)
        except OSError as error:
            return Weights(path=path, format=_format(path), size_bytes=0, problem=unreadable(error))
        seen = self._seen.get(path)
        if seen is not None and seen[0] == stamp:
            return seen[1]
        weights = _sendable(_understand(path))
        self._seen[path] = (stamp, weights)
        return weights


def files(weights: Weights) -> tuple[str, ...]:
    """Give the files whose content the weights are. Raises `OSError`, and `ModelFileError` for a broken index."""
    if weights.format is WeightsFormat.SAFETENSORS:
        return safetensors.files(weights.path)
    return gguf_parts.parts(weights.path)


def _sendable(weights: Weights) -> Weights:
    """Replace what cannot be sent or cannot be: names of parts, and texts and numbers in files that others made."""
    fields = msgspec.structs.asdict(weights)
    texts = {name: printable(value) for name, value in fields.items() if type(value) is str}
    numbers = {name: None for name, value in fields.items() if type(value) is int and not 0 <= value <= MOST}
    changed = {**numbers, **{name: text for name, text in texts.items() if text != fields[name]}}
    return msgspec.structs.replace(weights, **changed) if changed else weights


def _understand(path: str) -> Weights:
    try:
        return _inspect(path)
    except Exception as error:  # noqa: BLE001 - files are made by anybody: none may end the agent
        return Weights(path=path, format=_format(path), size_bytes=0, problem=f"cannot be understood: {error!r}")


def _inspect(path: str) -> Weights:
    if Path(path).is_dir():
        return safetensors.inspect(path)
    name = Path(path).name
    if name.endswith(UNFINISHED):
        what = f"is an unfinished download of {Path(name).stem}"
        return Weights(path=path, format=_format(path), size_bytes=Path(path).stat().st_size, problem=what)
    weights = gguf_parts.inspect(path)
    if weights.problem is None and Path(path + _CONTROL).exists():
        return msgspec.structs.replace(weights, problem=f"is still being downloaded: {name}{_CONTROL} lies beside it")
    return weights


def _models(folder: str, problems: list[str]) -> Iterator[str]:
    """Give the paths of models in a folder and below, and add what cannot be looked at to `problems`."""
    walked: set[str] = set()

    def refused(error: OSError) -> None:
        where = error.filename if isinstance(error.filename, str) else folder
        problems.append(_folder_problem(where, error))

    for where, folders, names in os.walk(folder, followlinks=True, onerror=refused):
        real = os.path.realpath(where)
        if real in walked:
            folders.clear()  # a link that leads back up
            continue
        walked.add(real)
        if is_unfinished_below(Path(where, HUB_DOWNLOADS)) or any(name.endswith(".incomplete") for name in names):
            problems.append(f"{where} holds an unfinished download")
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if safetensors.is_model(names):
            yield where
        for name in (*gguf_parts.leading(names), *filter(_is_unfinished, names)):
            yield str(Path(where, name))
        problems += [
            f"{Path(where, name)} is a link that leads in a circle" for name in names if _is_circle(where, name)
        ]


def _is_unfinished(name: str) -> bool:
    return name.endswith(UNFINISHED) and not name.endswith(_CONTROL) and Path(name).stem.endswith(GGUF)


def _folder_problem(path: str, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return f"there is no folder {path}"
    if error.errno == errno.ENOTDIR:
        return f"{path} is a file, not a folder"
    return f"{path} {unreadable(error)}"


def _dangling(path: str) -> Weights | None:
    """Describe a link to nothing; `None` when there is no link either: it vanished between listing and looking."""
    try:
        target = Path(path).readlink()
    except OSError:
        return None
    problem = printable(f"is a link to {target}, where nothing is")
    return Weights(path=path, format=_format(path), size_bytes=0, problem=problem)


def _format(path: str) -> WeightsFormat:
    return WeightsFormat.GGUF if GGUF in Path(path).name else WeightsFormat.SAFETENSORS


def _is_circle(where: str, name: str) -> bool:
    """True for a link to itself that may have meant a folder."""
    path = Path(where, name)
    if path.suffix or not path.is_symlink():
        return False
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _exists(path: str) -> bool:
    """True when something is there. Raises `OSError` when nothing is, or when it cannot be told."""
    Path(path).stat()
    return True


def _lack(names: Iterable[str]) -> str:
    known = set(names)
    if any(name.endswith(safetensors.SUFFIX) for name in known):
        adapter = "adapter_config.json" in known
        return "it holds a LoRA adapter" if adapter else f"it has safetensors files, but no {safetensors.CONFIG}"
    if any(name.endswith((".bin", ".pt", ".pth")) for name in known):
        return "it holds PyTorch files (.bin), no safetensors"
    if any(name.endswith(GGUF) for name in known):
        return "it holds GGUF files; name one of them"
    return f"it has no {safetensors.CONFIG} with safetensors files"


def _stamp(path: str) -> tuple[int, ...]:
    """What changes when any file of the model does. Raises `OSError` when it is not there."""
    stamp: list[int] = []
    if Path(path).is_dir():
        paths = sorted(str(file) for file in Path(path).iterdir() if file.suffix in _KINDS)
    else:
        paths = [*gguf_parts.parts(path), path + _CONTROL]
    for file in paths:
        try:
            stat = Path(file).stat()
        except OSError:
            if file == path:
                raise
            continue
        stamp += (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return tuple(stamp)


_KINDS = (safetensors.SUFFIX, ".json", ".jinja")
