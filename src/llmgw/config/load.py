"""Reading a TOML file into a configuration struct. Unknown keys are errors that name the nearest key."""

import difflib
import re
import tomllib
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TypeGuard, TypeVar, get_args, get_origin

import msgspec

from llmgw.schema.errors import InvalidInput

C = TypeVar("C", bound=msgspec.Struct)


_HINT = "give a readable file with --config; llmgw config example prints one"
_LISTED = re.compile(r"(?P<key>\w+)\[(?P<index>\d+)\]")
_PLACE = re.compile(r" - at `\$\.?(?P<path>.*)`$")


def load(kind: type[C], path: Path, *, hint: str = _HINT) -> C:
    """Read `path` as `kind`. Raises `InvalidInput` naming the file, the key and the nearest known key.

    `hint` says what to do about a file that cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot read configuration {path}: {error.strerror}", hint=hint) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not text in UTF-8 (byte {error.start})", hint=hint) from error
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
        raise _told(str(error), where, kind, data) from error
    except InvalidInput as error:
        # What a struct checks by itself knows no file.
        raise InvalidInput(f"{where}: {error.message}", hint=error.hint, field=error.field) from error


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


def _told(text: str, where: str, kind: type[msgspec.Struct], data: dict[str, object]) -> InvalidInput:
    place = _PLACE.search(text)
    if place is None:
        return InvalidInput(f"{where}: {text[:1].lower()}{text[1:]}")
    field, problem = place["path"], _PLACE.sub("", text)
    allowed = _words(kind, field)
    hint = f"write {' or '.join(allowed)}" if allowed else _brackets(kind, field, data)
    return InvalidInput(
        f"{where}: {field}: {problem[:1].lower()}{problem[1:]}{_written(field, data)}",
        hint=hint,
        field=field,
        allowed=allowed or None,
    )


def _written(field: str, data: dict[str, object]) -> str:
    """Quote a table of a list, `fabrics[1]`, that lacks something: without a name there is no other way to find it.

    Other tables are not quoted: those of contexts hold tokens.
    """
    listed = _LISTED.fullmatch(field)
    tables = data.get(listed["key"]) if listed is not None else None
    if listed is None or not isinstance(tables, list):
        return ""
    table = tables[int(listed["index"])]
    if not isinstance(table, dict):
        return f"; written there: {table!r}"
    return f"; written there: {', '.join(f'{key} = {value!r}' for key, value in table.items()) or 'nothing'}"


def _brackets(kind: type[msgspec.Struct], name: str, data: dict[str, object]) -> str | None:
    """Say how a list of tables is written, where a single table was."""
    is_list = any(
        field.encode_name == name and get_origin(field.type) is tuple and any(map(_is_struct, get_args(field.type)))
        for field in msgspec.structs.fields(kind)
    )
    if not is_list or isinstance(data.get(name), list):
        return None
    return f"write [[{name}]], with two brackets, once for each"


def _words(kind: type[msgspec.Struct], name: str) -> tuple[str, ...]:
    """Give the words a field takes; none for a field of another kind."""
    for field in msgspec.structs.fields(kind):
        if field.encode_name == name and isinstance(field.type, type) and issubclass(field.type, Enum):
            return tuple(str(word.value) for word in field.type)
    return ()
