"""GGUF models that are split into parts: one model, described by all its parts together."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from llmgw.schema.weights import Weights, WeightsFormat
from llmgw.weights import gguf
from llmgw.weights.files import unreadable
from llmgw.weights.gguf import GgufError, GgufHeader

SUFFIX = ".gguf"
_PART = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.gguf$")


def leading(names: Iterable[str]) -> tuple[str, ...]:
    """Give those of a folder's file names that stand for a model: whole files, else the first part there is."""
    found: dict[tuple[str, str], str] = {}
    for name in sorted(names):
        match = _PART.match(name)
        if match is not None:
            found.setdefault((match["stem"], match["total"]), name)
        elif name.endswith(SUFFIX):
            found[name, ""] = name
    return tuple(sorted(found.values()))


def parts(path: str) -> tuple[str, ...]:
    """Give all files of a model split into parts, one of which is `path`; just `path` for others."""
    match = _PART.match(Path(path).name)
    if match is None:
        return (path,)
    total = int(match["total"])
    names = (f"{match['stem']}-{number:05d}-of-{total:05d}.gguf" for number in range(1, total + 1))
    return tuple(str(Path(path).parent / name) for name in names)


def inspect(path: str) -> Weights:
    """Describe the model; what keeps it from being served is in `problem`. Raises nothing."""
    files = parts(path)
    if len(files) == 1:
        return gguf.inspect(path)
    headers: list[GgufHeader] = []
    missing: list[str] = []
    problem: str | None = None
    size = 0
    for file in files:
        name = Path(file).name
        try:
            own = Path(file).stat().st_size
            size += own
            header = gguf.read_header(file)
        except FileNotFoundError:
            missing.append(name)
            continue
        except GgufError as error:
            problem = problem or f"{name} {error}"
            continue
        except OSError as error:
            problem = problem or f"{name} {unreadable(error)}"
            continue
        if own < header.data_end:
            problem = problem or f"{name} is cut off: {own} bytes of at least {header.data_end}; copy it again"
        headers.append(header)
    if missing:
        problem = f"lacks {len(missing)} of its {len(files)} parts, first {missing[0]}"
    if not headers:
        return Weights(path=path, format=WeightsFormat.GGUF, size_bytes=size, problem=problem)
    return _joined(path, headers, size, problem)


def _joined(path: str, headers: Sequence[GgufHeader], size: int, problem: str | None) -> Weights:
    """Describe all parts as one file: the first one's words, and everybody's tensors."""
    tensors = tuple(tensor for header in headers for tensor in header.tensors)
    whole = gguf.describe(path, msgspec.structs.replace(headers[0], tensors=tensors), size)
    expected = headers[0].number("split.tensors.count")
    if problem is None and expected not in (None, len(tensors)):
        problem = f"its parts hold {len(tensors)} tensors where {expected} belong: they are of different models"
    return msgspec.structs.replace(whole, problem=problem or whole.problem)
