"""The GGUF container, version 3: metadata, then tensors. Enough of it to write tiny models by hand."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO

_ALIGNMENT = 32
_F32 = 0


class _Kind(IntEnum):
    """Value types of the format, as far as used here."""

    U32 = 4
    I32 = 5
    F32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9


@dataclass(frozen=True)
class Tensor:
    """One F32 tensor. `shape` has the fastest dimension first; `data` is `None` for all zero (takes no disk)."""

    name: str
    shape: tuple[int, ...]
    data: bytes | None = None

    @property
    def size(self) -> int:
        """Bytes of the tensor."""
        count = 4
        for extent in self.shape:
            count *= extent
        return count


Value = bool | int | float | str | Sequence[str] | Sequence[int]


def write_gguf(path: Path, metadata: Mapping[str, Value], tensors: Sequence[Tensor]) -> None:
    """Write a GGUF file. Raises `ValueError` for a tensor whose data does not fill its shape."""
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
        for key, value in metadata.items():
            file.write(_string(key) + _value(value))
        offset = 0
        for tensor in tensors:
            file.write(_string(tensor.name) + struct.pack("<I", len(tensor.shape)))
            file.write(struct.pack(f"<{len(tensor.shape)}QIQ", *tensor.shape, _F32, offset))
            offset += _padded(tensor.size)
        start = _padded(file.tell())
        _write_tensors(file, start, tensors)


def floats(values: Sequence[float]) -> bytes:
    """Pack numbers as F32."""
    return struct.pack(f"<{len(values)}f", *values)


def ones(count: int) -> bytes:
    """Give `count` times 1.0 as F32: a norm that changes nothing."""
    return struct.pack("<f", 1.0) * count


def _write_tensors(file: BinaryIO, start: int, tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        if tensor.data is not None:
            if len(tensor.data) != tensor.size:
                raise ValueError(f"{tensor.name} has {len(tensor.data)} bytes for a shape of {tensor.size}")
            file.seek(start)
            file.write(tensor.data)
        start += _padded(tensor.size)
    # Zero tensors stay holes of a sparse file; the length must still cover the last one.
    file.truncate(start)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Value) -> bytes:
    # bool first: it is an int to Python.
    if isinstance(value, bool):
        return struct.pack("<I?", _Kind.BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", _Kind.U32, value)
    if isinstance(value, float):
        return struct.pack("<If", _Kind.F32, value)
    if isinstance(value, str):
        return struct.pack("<I", _Kind.STRING) + _string(value)
    return struct.pack("<I", _Kind.ARRAY) + _array(value)


def _array(values: Sequence[str] | Sequence[int]) -> bytes:
    strings = [item for item in values if isinstance(item, str)]
    if strings or not values:
        return struct.pack("<IQ", _Kind.STRING, len(values)) + b"".join(_string(item) for item in strings)
    return struct.pack(f"<IQ{len(values)}i", _Kind.I32, len(values), *values)
