"""Reading a TOML file into a configuration struct. Unknown keys are errors that name the nearest key."""

import difflib
import tomllib
from pathlib import Path
from typing import TypeVar

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
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    for key in data:
        if key in known:
            continue
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
        raise InvalidInput(f"{where}: unknown key {key!r}", hint=hint, field=key, allowed=tuple(known))


def _field(text: str) -> str | None:
    marker = "`$."
    if marker not in text:
        return None
    return text.rsplit(marker, 1)[1].rstrip("`")
