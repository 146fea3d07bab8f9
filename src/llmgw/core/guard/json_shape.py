"""Whether a JSON value has a wanted shape: the part of JSON Schema that needs no patterns and no references."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llmgw.schema.errors import InvalidInput

Schema = Mapping[str, Any]

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
_SIZES = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_WORDS = ("title", "description")
ALLOWED = ("type", "properties", "required", "additionalProperties", "items", "enum", "const", *_SIZES, *_WORDS)
"""Keywords that are understood. Others are refused: one that is not carried out would check nothing, silently."""
MAX_DEPTH = 20


def checked(schema: Any, at: str, depth: int = 0) -> None:
    """Raise `InvalidInput` naming the first keyword that is not understood or has a wrong value."""
    if not isinstance(schema, dict):
        raise InvalidInput(f"{at}: expected an object", field=at)
    if depth > MAX_DEPTH:
        raise InvalidInput(f"{at}: nested more than {MAX_DEPTH} deep", field=at)
    for name, value in schema.items():
        _check_keyword(name, value, f"{at}.{name}", depth)


def violation(value: Any, schema: Schema, at: str = "$") -> str | None:
    """Say in words where `value` first differs from a checked schema; `None`: nowhere. Never quotes the value."""
    kinds = _list(schema.get("type", ()))
    if kinds and not any(_TYPES[kind](value) for kind in kinds):
        return f"{at} is not {' or '.join(kinds)}"
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        return f"{at} is none of the allowed values"
    if "const" in schema and not _same(value, schema["const"]):
        return f"{at} is not the wanted value"
    return _size(value, schema, at) or _inside(value, schema, at)


def _check_keyword(name: str, value: Any, at: str, depth: int) -> None:
    if name not in ALLOWED:
        raise InvalidInput(f"{at}: this keyword is not understood", field=at, allowed=ALLOWED)
    if name == "type" and not (_list(value) and all(kind in _TYPES for kind in _list(value))):
        raise InvalidInput(f"{at}: {value!r} is no type", field=at, allowed=tuple(_TYPES))
    if name in _SIZES and not _TYPES["number"](value):
        raise InvalidInput(f"{at}: expected a number", field=at)
    if name in {"required", "enum"} and not isinstance(value, list):
        raise InvalidInput(f"{at}: expected an array", field=at)
    if name == "properties":
        if not isinstance(value, dict):
            raise InvalidInput(f"{at}: expected an object", field=at)
        for inner, schema in value.items():
            checked(schema, f"{at}.{inner}", depth + 1)
    if name == "items" or (name == "additionalProperties" and not isinstance(value, bool)):
        checked(value, at, depth + 1)


def _size(value: Any, schema: Schema, at: str) -> str | None:
    measures = (
        ("", value if _TYPES["number"](value) else None),
        ("Length", len(value) if isinstance(value, str) else None),
        ("Items", len(value) if isinstance(value, list) else None),
    )
    for suffix, size in measures:
        if size is None:
            continue
        least, most = schema.get(f"min{suffix or 'imum'}"), schema.get(f"max{suffix or 'imum'}")
        if least is not None and size < least:
            return f"{at} is below min{suffix or 'imum'} {least}"
        if most is not None and size > most:
            return f"{at} is above max{suffix or 'imum'} {most}"
    return None


def _inside(value: Any, schema: Schema, at: str) -> str | None:
    if isinstance(value, dict):
        return _object(value, schema, at)
    if isinstance(value, list) and "items" in schema:
        found = (violation(item, schema["items"], f"{at}[{index}]") for index, item in enumerate(value))
        return next((one for one in found if one is not None), None)
    return None


def _object(value: Mapping[str, Any], schema: Schema, at: str) -> str | None:
    for name in schema.get("required", ()):
        if name not in value:
            return f"{at}.{name} is missing"
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, inner in value.items():
        wanted = known.get(name, others)
        if wanted is False:
            return f"{at} has a property that is not allowed"
        if wanted is not True and (told := violation(inner, wanted, f"{at}.{name if name in known else '*'}")):
            return told
    return None


def _same(one: Any, other: Any) -> bool:
    # True equals 1 to Python, not to JSON.
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _list(value: Any) -> Sequence[Any]:
    return [value] if isinstance(value, str) else value if isinstance(value, list) else ()
