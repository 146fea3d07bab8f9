"""Reading a TOML file into a configuration struct. Unknown keys are errors that name the nearest key."""

import difflib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard, TypeVar, get_args

import msgspec

from llmgw.schema.errors import InvalidInput

C = TypeVar("C", bound=msgspec.Struct)


def load(kind: type[C], path: Path) -> C:
    """Read `path` as `kind`. Raises `InvalidInput` naming the file, the key and the nearest known key."""
    try:
        text = path.read_text()
    except OSError as error:
        raise InvalidInput(
            f"cannot read configuration {path}: {error.strerror}",
            hint="give a readable file with --config; llmgw config example prints one",
        ) from error
    return parse(kind, text, where=str(path))


def parse(kind: type[C], text: str, *, where: str) -> C:
    """Parse TOML text as `kind`; `where` names the text in errors."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{where} is not TOML: {error}") from error
    _refuse_unknown(kind, data, where)
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{where}: {error}", field=_field(str(error))) from error


def _refuse_unknown(kind: type[msgspec.Struct], data: dict[str, object], where: str) -> None:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key, value in data.items():
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(fields)}"
            raise InvalidInput(f"{where}: unknown key {key!r}", hint=hint, field=key, allowed=tuple(fields))
        for inner_kind, inner, place in _tables(fields[key].type, value):
            _refuse_unknown(inner_kind, inner, f"{where}: {key}{place}")


def _tables(kind: object, value: object) -> Iterator[tuple[type[msgspec.Struct], dict[str, object], str]]:
    """Give the tables within a value with the struct each is read as: `[[fabrics]]`, `[contexts.NAME]`."""
    struct = next((inner for inner in get_args(kind) if _is_struct(inner)), None)
    if struct is None:
        return
    pairs = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for place, inner in pairs:
        if isinstance(inner, dict):
            yield struct, inner, f"[{place}]"


def _is_struct(kind: object) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _field(text: str) -> str | None:
    marker = "`$."
    if marker not in text:
        return None
    return text.rsplit(marker, 1)[1].rstrip("`")
