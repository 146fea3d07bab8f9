"""Bodies of Anthropic's API, read strictly and written as a chat's."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

import msgspec

from llmgw.core.untranslatable import Untranslatable
from llmgw.gateway.decode import members_of, parsed
from llmgw.gateway.errors import ApiError
from llmgw.schema.anthropic.blocks import Block, ResultBlock
from llmgw.schema.anthropic.request import Choice, CountRequest, Thinking

R = TypeVar("R", bound=CountRequest)

_ENCODE = msgspec.json.Encoder().encode


def chat_bytes(
    raw: bytes, decode: Callable[[bytes], R], body: Callable[[R, Mapping[str, msgspec.Raw]], dict[str, Any]]
) -> bytes:
    """Decode a request; encode what `body` makes of it and of its fields as they came. Raises `ApiError` 400."""
    try:
        request = parsed(raw, decode)
    except ApiError as error:
        raise _with_allowed(error) from error
    try:
        return _ENCODE(body(request, members_of(raw)))
    except Untranslatable as error:
        message = f"the field {error.field!r}: {error.message}"
        raise ApiError(400, message, code="unsupported_value", param=error.field) from error
    except RecursionError as error:
        raise ApiError(400, "the request body is nested too deeply", code="invalid_json") from error


def _tags(union: Any) -> str:
    return ", ".join(repr(kind.__struct_config__.tag) for kind in get_args(union))


_ALLOWED = (
    (re.compile(r"messages\[\d+\]\.role"), "'user', 'assistant', 'system'"),
    (re.compile(r"messages\[\d+\]\.content\[\d+\]\.type"), _tags(Block)),
    (re.compile(r"messages\[\d+\]\.content\[\d+\]\.content\[\d+\]\.type"), _tags(ResultBlock)),
    (re.compile(r"system\[\d+\]\.type"), "'text'"),
    (re.compile(r"tool_choice\.type"), _tags(Choice)),
    (re.compile(r"thinking\.type"), _tags(Thinking)),
)
"""What may stand at a place that holds one of several things."""


def _with_allowed(error: ApiError) -> ApiError:
    allowed = next((words for place, words in _ALLOWED if place.fullmatch(error.param or "")), None)
    if allowed is None:
        return error
    return ApiError(error.status, f"{error.message}; allowed are {allowed}", code=error.code, param=error.param)
