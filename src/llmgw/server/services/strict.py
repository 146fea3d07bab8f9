"""Data from outside into values: unknown names are refused with the nearest known one, errors name the field."""

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from llmgw.schema.errors import InvalidInput

T = TypeVar("T")

_SEND = "send a JSON object as UTF-8; GET /api/v1/openapi.json describes it"

_PLACE = re.compile(r" - at `\$\.?(?P<path>.*)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<name>.+)`$")
_STEP = re.compile(r"\[[^\]]*\]|[^.\[\]]+")
"""One step of a place such as `rules[0].action`."""
_ENUM = re.compile(r"^Invalid enum value (?P<value>.+)$")


def decode(kind: type[T], raw: bytes) -> T:
    """Read JSON as `kind`. Raises `InvalidInput` naming the field, and the allowed values where they are few."""
    if not raw.strip():
        raise InvalidInput("the body is empty", hint=_SEND)
    try:
        data = msgspec.json.decode(raw)
        json.loads(raw, object_pairs_hook=_refuse_twice, parse_int=str, parse_float=str)
    except RecursionError as error:
        raise InvalidInput("the body is nested too deeply", hint=_SEND) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the body is not JSON: {_PLACE.sub('', str(error))}", hint=_SEND) from error
    return convert(kind, data)


def convert(kind: type[T], data: object, *, at: str = "", texts: bool = False) -> T:
    """Turn decoded data into `kind`; `at` is the path of `data` in errors, `texts` lets "5" be a number."""
    _refuse_unknown(inspect.type_info(kind), data, at)
    try:
        return msgspec.convert(data, kind, strict=not texts)
    except msgspec.ValidationError as error:
        raise _told(str(error), kind, at) from error


def _refuse_twice(pairs: list[tuple[str, object]]) -> None:
    """Two readers of such a body would see two different orders. Our decoder takes the last without a word."""
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise InvalidInput(f"field {name!r} is given twice", hint="give it once", field=name)
        names.add(name)


def _refuse_unknown(kind: inspect.Type, data: object, at: str) -> None:
    if isinstance(kind, inspect.UnionType):
        for one in kind.types:
            _refuse_unknown(one, data, at)
    elif isinstance(kind, inspect.StructType) and isinstance(data, Mapping):
        _refuse_unknown_fields(kind, data, at)
    elif isinstance(kind, inspect.DictType) and isinstance(data, Mapping):
        _refuse_other_values(kind, data, at)
    elif isinstance(kind, inspect.VarTupleType | inspect.ListType) and isinstance(data, list | tuple):
        for index, value in enumerate(data):
            _refuse_unknown(kind.item_type, value, f"{at}[{index}]")


def _refuse_unknown_fields(kind: inspect.StructType, data: Mapping[str, object], at: str) -> None:
    known = {field.encode_name: field.type for field in kind.fields}
    for name, value in data.items():
        if name not in known:
            raise _unknown(str(name), kind, at)
        _refuse_unknown(known[name], value, _join(at, name))


def _refuse_other_values(kind: inspect.DictType, data: Mapping[str, object], at: str) -> None:
    for name, value in data.items():
        place = _join(at, str(name))
        if isinstance(kind.value_type, inspect.StrType) and not isinstance(value, str):
            # msgspec would not say which of them it is.
            raise InvalidInput(f"{place}: expected `str`, got `{_word(value)}`", field=place)
        _refuse_unknown(kind.value_type, value, place)


def _unknown(name: str, kind: inspect.StructType, at: str) -> InvalidInput:
    known = [field.encode_name for field in kind.fields]
    return InvalidInput(
        f"unknown field {_join(at, name)!r}",
        hint=_nearest(name, kind) or f"known here: {', '.join(known) or 'none'}",
        field=_join(at, name),
        allowed=tuple(known),
    )


def _nearest(name: str, kind: inspect.StructType) -> str | None:
    """Name the closest field, one level further in too: `engine` beside `profile` is the commonest slip."""
    names = {field.encode_name: field.encode_name for field in kind.fields}
    for field in kind.fields:
        if isinstance(field.type, inspect.StructType):
            inner = {one.encode_name: f"{field.encode_name}.{one.encode_name}" for one in field.type.fields}
            names = inner | names
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {names[near[0]]!r}?" if near else None


def _told(text: str, kind: type, at: str) -> InvalidInput:
    place = _PLACE.search(text)
    text = _PLACE.sub("", text)
    inner = place["path"] if place else ""
    missing = _MISSING.match(text)
    if missing:
        field = _join(_join(at, inner), missing["name"])
        return InvalidInput(f"field {field!r} is missing", field=field)
    field = _join(at, inner)
    wrong = _ENUM.match(text)
    if wrong:
        allowed = _allowed(inspect.type_info(kind), _STEP.findall(inner))
        return InvalidInput(
            f"{field}: {wrong['value']} is not one of {', '.join(allowed)}", field=field or None, allowed=allowed
        )
    return InvalidInput(f"{field or 'the body'}: {text[:1].lower()}{text[1:]}", field=field or None)


def _allowed(kind: inspect.Type, path: list[str]) -> tuple[str, ...]:
    """Give the values of the enumeration that `path` leads to: names of fields, and `[0]` into lists."""
    found: tuple[Any, ...] = ()
    if isinstance(kind, inspect.UnionType):
        found = tuple(value for one in kind.types for value in _allowed(one, path))
    elif isinstance(kind, inspect.EnumType) and not path:
        found = tuple(member.value for member in kind.cls)
    elif isinstance(kind, inspect.LiteralType) and not path:
        found = kind.values
    elif isinstance(kind, inspect.VarTupleType | inspect.ListType) and path and path[0].startswith("["):
        found = _allowed(kind.item_type, path[1:])
    elif isinstance(kind, inspect.StructType) and path:
        found = tuple(
            value for field in kind.fields if field.encode_name == path[0] for value in _allowed(field.type, path[1:])
        )
    return tuple(str(value) for value in found)


def _word(value: object) -> str:
    """Name the type of a decoded value as JSON does."""
    words = {bool: "bool", int: "int", float: "float", list: "array", dict: "object"}
    return words.get(type(value), "null")


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at and name else at or name
