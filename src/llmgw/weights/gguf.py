"""GGUF files: reading the header, and saying in words what is wrong with a file.

Only the header is read, never the tensors: a header is some megabytes at most, whatever the model's size.
"""

import os
import struct
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from llmgw.core.guard.judges.recognise import Clues, recognise
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.value import Value
from llmgw.schema.weights import Weights, WeightsFormat
from llmgw.weights.files import LFS_MAGIC, LFS_PROBLEM, ModelFileError, unreadable
from llmgw.weights.ggml_types import FILE_TYPES, TENSOR_TYPES

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_ENTRIES = 1 << 20
"""More keys or tensors than any model has: a damaged count."""
MAX_STRING = 64 * 1024 * 1024
MAX_KEPT_ARRAY = 4096
"""Longer arrays (vocabularies) are skipped; per-layer numbers are kept."""
MAX_DIMENSIONS = 8
_BUFFER = 1 << 20
_MATRIX = 2

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

Scalar = str | int | float | bool
Metadata = dict[str, Scalar | tuple[Scalar, ...]]


class GgufError(ModelFileError):
    """The file cannot be read as GGUF; the text says why, in words for people."""


class Tensor(Value, frozen=True, kw_only=True):
    """One tensor's entry in the header."""

    name: str
    shape: tuple[int, ...]
    type_code: int
    offset: int
    """From the start of the data."""

    @property
    def size_bytes(self) -> int | None:
        """Bytes of its data; `None` for a type we do not know."""
        kind = TENSOR_TYPES.get(self.type_code)
        if kind is None:
            return None
        count = 1
        for extent in self.shape:
            count *= extent
        return -(-count // kind.block) * kind.block_bytes


class GgufHeader(Value, frozen=True, kw_only=True):
    """What a GGUF file says of itself."""

    version: int
    metadata: Metadata
    """Long arrays are left out."""
    tensors: tuple[Tensor, ...]
    data_offset: int

    @property
    def data_end(self) -> int:
        """Smallest size the file must have."""
        ends = [tensor.offset + (tensor.size_bytes or 0) for tensor in self.tensors]
        return self.data_offset + max(ends, default=0)

    def text(self, key: str) -> str | None:
        """Give a text value."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None

    def number(self, key: str) -> int | None:
        """Give a whole number."""
        value = self.metadata.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def numbers(self, key: str, count: int) -> tuple[int, ...] | None:
        """Give one number for each of `count` layers: some models state it once, some for each."""
        value = self.metadata.get(key)
        if isinstance(value, tuple) and len(value) >= count:
            return tuple(int(one) for one in value[:count])
        single = self.number(key)
        return None if single is None else (single,) * count


def read_header(path: str | Path) -> GgufHeader:
    """Read the header. Raises `GgufError` with the reason in words, `OSError` when the file cannot be read."""
    with Path(path).open("rb", buffering=_BUFFER) as file:
        return _Reader(file).header()


def inspect(path: str) -> Weights:
    """Describe the file; what keeps it from being served is in `problem`. Raises nothing."""
    try:
        size = Path(path).stat().st_size
        header = read_header(path)
    except GgufError as error:
        return Weights(path=path, format=WeightsFormat.GGUF, size_bytes=size, problem=str(error))
    except OSError as error:
        return Weights(path=path, format=WeightsFormat.GGUF, size_bytes=0, problem=unreadable(error))
    return describe(path, header, size)


def describe(path: str, header: GgufHeader, size: int) -> Weights:
    """Say what the header of a file of `size` bytes means."""
    architecture = header.text("general.architecture")
    return Weights(
        path=path,
        format=WeightsFormat.GGUF,
        size_bytes=size,
        name=header.text("general.name"),
        architecture=architecture,
        quantization=_quantization(header),
        context_length=header.number(f"{architecture}.context_length"),
        layers=header.number(f"{architecture}.block_count"),
        kv_bytes_per_token=_kv_bytes(header, architecture),
        vocabulary=_vocabulary(header),
        chat_template=header.text("tokenizer.chat_template") is not None,
        judge=_judge(path, header, architecture),
        problem=_problem(header, architecture, size),
    )


def _judge(path: str, header: GgufHeader, architecture: str | None) -> JudgeFamily | None:
    clues = Clues(
        file=str(path),
        name=header.text("general.name"),
        layers=header.number(f"{architecture}.block_count"),
        chat_template=header.text("tokenizer.chat_template"),
    )
    return recognise(clues).family


def _problem(header: GgufHeader, architecture: str | None, size: int) -> str | None:
    kind = header.text("general.type")
    if kind not in (None, "model"):
        return f"is a GGUF file of type {kind}, not a model"
    if architecture is None:
        return "names no architecture (general.architecture)"
    if not header.tensors:
        return "holds no tensors (a vocabulary only)"
    if size < header.data_end:
        return f"is cut off: {size} bytes of at least {header.data_end}; copy it again"
    return None


def _quantization(header: GgufHeader) -> str | None:
    named = FILE_TYPES.get(header.number("general.file_type") or -1)
    if named is not None:
        return named
    sizes: Counter[str] = Counter()
    for tensor in header.tensors:
        kind = TENSOR_TYPES.get(tensor.type_code)
        if kind is not None:
            sizes[kind.name] += tensor.size_bytes or 0
    return sizes.most_common(1)[0][0] if sizes else None


def _kv_bytes(header: GgufHeader, architecture: str | None) -> int | None:
    """Bytes of f16 keys and values of one token over all layers; `None` for caches that are not plain attention."""
    layers = header.number(f"{architecture}.block_count")
    if not layers or header.number(f"{architecture}.attention.kv_lora_rank") is not None:
        return None
    heads = header.numbers(f"{architecture}.attention.head_count", layers)
    kv_heads = header.numbers(f"{architecture}.attention.head_count_kv", layers) or heads
    width = header.number(f"{architecture}.embedding_length")
    if not heads or not kv_heads or not any(kv_heads):
        return None
    head_width = width // max(heads) if width else None
    key = header.number(f"{architecture}.attention.key_length") or head_width
    value = header.number(f"{architecture}.attention.value_length") or head_width
    if key is None or value is None:
        return None
    return sum(kv_heads) * (key + value) * 2


def _vocabulary(header: GgufHeader) -> int | None:
    """Tokens of the output head. Encoders have embeddings too, but no norm before a head."""
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    embedding = shapes.get("token_embd.weight", ())
    return embedding[1] if "output_norm.weight" in shapes and len(embedding) == _MATRIX else None


class _Reader:
    """Reads the header's parts in order."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def header(self) -> GgufHeader:
        version = self._start()
        tensor_count, entry_count = self._number("Q"), self._number("Q")
        if max(tensor_count, entry_count) > MAX_ENTRIES:
            raise GgufError("has a damaged header (impossible number of entries)")
        metadata: Metadata = {}
        for _ in range(entry_count):
            key = self._string()
            value = self._value(self._number("I"))
            if value is not None:
                metadata[key] = value
        tensors = tuple(self._tensor() for _ in range(tensor_count))
        alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment <= 0:
            raise GgufError("has a damaged header (alignment)")
        offset = -(-self._file.tell() // alignment) * alignment
        return GgufHeader(version=version, metadata=metadata, tensors=tensors, data_offset=offset)

    def _start(self) -> int:
        magic = self._file.read(len(LFS_MAGIC))
        if not magic:
            raise GgufError("is empty")
        if magic == LFS_MAGIC:
            raise GgufError(LFS_PROBLEM)
        if not magic.startswith(MAGIC):
            raise GgufError(f"is not GGUF: it starts with {magic[:4]!r}")
        self._file.seek(len(MAGIC))
        raw = self._exactly(4)
        version = int.from_bytes(raw, "little")
        if version in VERSIONS:
            return version
        if int.from_bytes(raw, "big") in VERSIONS:
            raise GgufError("is big-endian GGUF, which engines on this machine cannot read")
        raise GgufError(f"is GGUF version {version}; versions 2 and 3 can be served")

    def _tensor(self) -> Tensor:
        name = self._string()
        dimensions = self._number("I")
        if dimensions > MAX_DIMENSIONS:
            raise GgufError(f"has a damaged header (tensor {name[:80]!r} of {dimensions} dimensions)")
        shape = tuple(self._number("Q") for _ in range(dimensions))
        return Tensor(name=name, shape=shape, type_code=self._number("I"), offset=self._number("Q"))

    def _value(self, kind: int) -> Scalar | tuple[Scalar, ...] | None:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        return self._scalar(kind)

    def _array(self) -> tuple[Scalar, ...] | None:
        kind, count = self._number("I"), self._number("Q")
        if kind == _STRING:
            for _ in range(count):
                self._skip(self._length())
            return None
        if kind == _ARRAY:
            for _ in range(count):
                self._array()
            return None
        if count > MAX_KEPT_ARRAY:
            self._skip(count * struct.calcsize(self._format(kind)))
            return None
        return tuple(self._scalar(kind) for _ in range(count))

    def _scalar(self, kind: int) -> Scalar:
        layout = struct.Struct(self._format(kind))
        value: Scalar = layout.unpack(self._exactly(layout.size))[0]
        return value

    def _format(self, kind: int) -> str:
        code = _SCALARS.get(kind)
        if code is None:
            raise GgufError(f"has a damaged header (value of type {kind})")
        return "<" + code

    def _number(self, code: str) -> int:
        layout = struct.Struct("<" + code)
        value: int = layout.unpack(self._exactly(layout.size))[0]
        return value

    def _string(self) -> str:
        return self._exactly(self._length()).decode(errors="replace")

    def _length(self) -> int:
        length = self._number("Q")
        if length > MAX_STRING:
            raise GgufError("has a damaged header (impossible length of a text)")
        return length

    def _exactly(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) != count:
            raise GgufError("is cut off within its header; copy it again")
        return data

    def _skip(self, count: int) -> None:
        self._exactly(count) if count < _BUFFER else self._file.seek(count, os.SEEK_CUR)
