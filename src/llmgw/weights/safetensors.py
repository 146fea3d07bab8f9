"""Safetensors folders: what a model folder holds, and saying in words what is wrong with it.

A model is a folder with `config.json` and `*.safetensors`; of the tensors only the headers are read.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from llmgw.schema.value import Value
from llmgw.schema.weights import Weights, WeightsFormat
from llmgw.weights import chat_template, hf_config
from llmgw.weights.files import (
    HUB_DOWNLOADS,
    LFS_MAGIC,
    LFS_PROBLEM,
    UNFINISHED,
    ModelFileError,
    is_unfinished_below,
    read_json,
    unreadable,
)

SUFFIX = ".safetensors"
CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
MAX_HEADER = 100_000_000
"""Bytes; the format's own bound."""
_LENGTH = 8
_PART = re.compile(r"-(?P<number>\d{5})-of-(?P<total>\d{5})\.safetensors$")
_HUB = re.compile(r"/models--(?P<org>[^/]+)--(?P<repo>[^/]+)/snapshots/[^/]+$")


class Tensors(Value, frozen=True, kw_only=True):
    """What the header of one file says."""

    weights: dict[str, int]
    """How many bytes are of each type of number."""
    file_bytes: int
    """Size the file must have."""


class _Entry(msgspec.Struct):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def read_header(path: Path) -> Tensors:
    """Read the header of one file. Raises `ModelFileError` with the reason in words, `OSError`."""
    with path.open("rb") as file:
        start = file.read(len(LFS_MAGIC))
        if not start:
            raise ModelFileError("is empty")
        if start == LFS_MAGIC:
            raise ModelFileError(LFS_PROBLEM)
        length = int.from_bytes(start[:_LENGTH], "little")
        if length > MAX_HEADER or start[_LENGTH : _LENGTH + 1] not in (b"{", b""):
            raise ModelFileError(f"is not safetensors: it starts with {start[:4]!r}")
        file.seek(_LENGTH)
        raw = file.read(length)
    if len(raw) < length or len(start) < _LENGTH:
        raise ModelFileError("is cut off within its header; copy it again")
    return _parse(raw)


def _parse(raw: bytes) -> Tensors:
    try:
        entries = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        entries.pop("__metadata__", None)
        tensors = [msgspec.json.decode(entry, type=_Entry) for entry in entries.values()]
    except msgspec.MsgspecError as error:
        raise ModelFileError("has a damaged header") from error
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        sizes[tensor.dtype] += tensor.data_offsets[1] - tensor.data_offsets[0]
    end = max((tensor.data_offsets[1] for tensor in tensors), default=0)
    return Tensors(weights=dict(sizes), file_bytes=_LENGTH + len(raw) + end)


def is_model(names: Iterable[str]) -> bool:
    """True when a folder with these files is one model, whole or not."""
    known = set(names)
    return INDEX in known or (CONFIG in known and any(name.endswith(SUFFIX) for name in known))


def files(folder: str) -> tuple[str, ...]:
    """Give the files whose content is the model: its parts and its configuration. Raises `OSError`."""
    names = [path.name for path in Path(folder).iterdir()]
    known = [*_parts(Path(folder), names), CONFIG, *chat_template.FILES, "tokenizer.json", "tokenizer.model"]
    return tuple(str(Path(folder, name)) for name in known if name in names)


def inspect(path: str) -> Weights:
    """Describe the model in a folder; what keeps it from being served is in `problem`. Raises nothing."""
    folder = Path(path)
    try:
        names = [entry.name for entry in folder.iterdir()]
        parts = _parts(folder, names)
    except ModelFileError as error:
        return Weights(path=path, format=WeightsFormat.SAFETENSORS, size_bytes=0, problem=str(error))
    except OSError as error:
        return Weights(path=path, format=WeightsFormat.SAFETENSORS, size_bytes=0, problem=unreadable(error))
    size, dtypes, problem = _look(folder, parts, names)
    try:
        config = hf_config.read(folder)
    except ModelFileError as error:
        return Weights(path=path, format=WeightsFormat.SAFETENSORS, size_bytes=size, problem=problem or str(error))
    return Weights(
        path=path,
        format=WeightsFormat.SAFETENSORS,
        size_bytes=size,
        name=_name(folder),
        architecture=config.architecture,
        quantization=config.quantization or _most(dtypes),
        context_length=config.context_length,
        layers=config.layers,
        kv_bytes_per_token=config.kv_bytes_per_token,
        vocabulary=config.vocabulary,
        chat_template=chat_template.is_there(folder),
        problem=problem or (None if config.architecture else f"its {CONFIG} names no architecture"),
    )


def _parts(folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Give the names of all parts the model must have. Raises `ModelFileError` for an index that cannot be read."""
    if INDEX in names:
        index = read_json(folder / INDEX, _Index)
        return tuple(sorted(set(index.weight_map.values())))
    found = sorted(name for name in names if name.endswith(SUFFIX))
    model = [name for name in found if name.startswith("model")] or found
    numbered = next((match for name in model if (match := _PART.search(name)) is not None), None)
    if numbered is None:
        return tuple(model)
    stem = numbered.string[: numbered.start()]
    total = int(numbered["total"])
    return tuple(f"{stem}-{number:05d}-of-{total:05d}{SUFFIX}" for number in range(1, total + 1))


def _look(folder: Path, parts: Sequence[str], names: Sequence[str]) -> tuple[int, Counter[str], str | None]:
    """Give the size of what is there, the bytes of each type of number, and the first problem."""
    size, dtypes = 0, Counter[str]()
    missing: list[str] = []
    problem: str | None = None
    for name in parts:
        path = folder / name
        try:
            own = path.stat().st_size
            size += own
            header = read_header(path)
        except FileNotFoundError:
            missing.append(name)
            continue
        except ModelFileError as error:
            problem = problem or f"{name} {error}"
            continue
        except OSError as error:
            problem = problem or f"{name} {unreadable(error)}"
            continue
        dtypes.update(header.weights)
        problem = problem or _mismatch(name, own, header)
    if missing:
        lacking = f"lacks {len(missing)} of its {len(parts)} parts, first {missing[0]}"
        problem = lacking + (": a download is unfinished" if _is_loading(folder, names) else "")
    return size, dtypes, problem or (None if parts else "has no safetensors files")


def _mismatch(name: str, size: int, header: Tensors) -> str | None:
    if size < header.file_bytes:
        return f"{name} is cut off: {size} bytes of {header.file_bytes}; copy it again"
    if size > header.file_bytes:
        return f"{name} has {size} bytes where its header tells of {header.file_bytes}; copy it again"
    return None


def _is_loading(folder: Path, names: Sequence[str]) -> bool:
    """True when a downloader's unfinished files lie beside the others, or where the hub's client puts them."""
    if any(name.endswith(UNFINISHED) for name in names):
        return True
    return any(is_unfinished_below(place) for place in (folder / HUB_DOWNLOADS, folder / "../../blobs"))


def _most(dtypes: Counter[str]) -> str | None:
    return dtypes.most_common(1)[0][0] if dtypes else None


def _name(folder: Path) -> str:
    """Give `org/repo` in a cache of the hub's client, whose folders are named by revision; else the folder's name."""
    match = _HUB.search(str(folder))
    return folder.name if match is None else f"{match['org']}/{match['repo']}"
