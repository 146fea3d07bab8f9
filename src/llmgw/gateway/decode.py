"""A request's body, decoded strictly: what an engine could read otherwise than this gateway does not pass."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeVar

import msgspec
from msgspec import UNSET

from llmgw.gateway.errors import ApiError, malformed

R = TypeVar("R", bound=msgspec.Struct)

_MEMBERS: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LONG = 64
MAX_FIELDS = 256
"""Several times as many as any API has. Each is looked for in the whole body."""
_JSON_TYPES = (b"application/json", b"text/json")


def check_type(content_type: bytes | None, content_encoding: bytes | None) -> None:
    """Refuse what says itself that it is no plain JSON. Raises `ApiError` 415; without the header JSON is assumed."""
    if content_encoding is not None and content_encoding.strip().lower() not in (b"", b"identity"):
        raise _unsupported("content-encoding", content_encoding, "send the body uncompressed")
    if content_type is None:
        return
    essence = content_type.partition(b";")[0].strip().lower()
    if essence not in _JSON_TYPES and not essence.endswith(b"+json"):
        raise _unsupported("content-type", content_type, "send 'content-type: application/json'")


def decoded(raw: bytes, decode: Callable[[bytes], R]) -> R:
    """Decode a body. Raises `ApiError` 400 that names the place or the field."""
    request = parsed(raw, decode)
    _refuse_repeated(raw, request)
    return request


def parsed(raw: bytes, decode: Callable[[bytes], R]) -> R:
    """Decode a body, not looking for fields that are given twice. Raises `ApiError` 400."""
    if not raw:
        raise ApiError(400, "the request body is empty; send a JSON object", code="empty_body")
    try:
        request = decode(raw)
    except msgspec.DecodeError as error:
        raise malformed(raw, error) from error
    except RecursionError as error:
        raise ApiError(400, "the request body is nested too deeply", code="invalid_json") from error
    if not raw.isascii():
        _check_utf8(raw)
    return request


def members_of(raw: bytes) -> dict[str, msgspec.Raw]:
    """Give all fields of a body that was parsed, as they came. Raises `ApiError` 400 for one that is given twice."""
    members = _MEMBERS.decode(raw)
    if len(members) > MAX_FIELDS:
        raise ApiError(
            400, f"the request body has {len(members)} fields; {MAX_FIELDS} are allowed", code="too_many_fields"
        )
    rest = raw
    for value in members.values():
        rest = _without(rest, bytes(value))
    for name in members:
        quoted = b'"%b"' % name.encode()
        if rest.count(quoted) > 1 and raw.count(quoted) > 1 + _within(members, quoted):
            raise _repeated(name)
    return members


def _check_utf8(raw: bytes) -> None:
    """Look at what stays raw, too: not every JSON reader checks it."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise ApiError(
            400, f"the request body is not valid UTF-8: {error.reason} at byte {error.start}", code="invalid_json"
        ) from error


def _refuse_repeated(raw: bytes, request: msgspec.Struct) -> None:
    """Refuse a field given twice: readers differ in which one they take.

    The prompt, most of a body, is cut out first. Within a JSON string a name's quotes would be escaped, so counting
    leaves the closer look to the rare.
    """
    rest = raw
    for name, quoted in _quoted_fields(type(request)):
        value = getattr(request, name)
        if type(value) is msgspec.Raw:
            rest = _without(rest, bytes(value))
        if (
            value is not UNSET
            and rest.count(quoted) > 1
            and raw.count(quoted) > 1 + _within(_MEMBERS.decode(raw), quoted)
        ):
            raise _repeated(name)


@cache
def _quoted_fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, bytes], ...]:
    """Give the fields' names, plain and as they stand in JSON; the raw ones first."""
    fields = sorted(msgspec.structs.fields(kind), key=lambda field: "Raw" not in str(field.type))
    return tuple((field.name, b'"%b"' % field.name.encode()) for field in fields)


def _without(raw: bytes, value: bytes) -> bytes:
    """Cut a long value out. Searching for its beginning is much cheaper than for all of it."""
    if len(value) < _LONG:
        return raw
    at = raw.find(value[:_LONG])
    return raw[:at] + raw[at + len(value) :] if raw.startswith(value, at) else raw


def _within(members: Mapping[str, msgspec.Raw], quoted: bytes) -> int:
    return sum(bytes(value).count(quoted) for value in members.values())


def _repeated(name: str) -> ApiError:
    return ApiError(400, f"the field {name!r} is given more than once", code="repeated_parameter", param=name)


def _unsupported(header: str, value: bytes, hint: str) -> ApiError:
    shown = value[:100].decode("latin-1")
    return ApiError(415, f"{header} {shown!r} is not supported here; {hint}", code="unsupported_media_type")
