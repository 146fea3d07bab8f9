"""Errors in Anthropic's shape."""

from collections.abc import Mapping
from typing import Any

_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STATUS = {"invalid_request_error": 400, "rate_limit_error": 429}
"""Statuses of errors within a stream, by their OpenAI type; all others are the server's."""
_CODES = {"upstream_timeout": 504, "guard_unavailable": 503, "model_overloaded": 429, "model_starting": 503}
_TOO_LONG = "context_length_exceeded"
_SERVER = 500


def error_body(status: int | None, told: Mapping[str, Any], request_id: str) -> dict[str, Any]:
    """Give an error. `told` is the inside of an OpenAI error, whose further members (rules, categories) stay.

    `status` is `None` for one within a stream: only its own words say what kind it is.
    """
    kind = _type_of(status if status is not None else _status_of(told))
    message = str(told.get("message") or "the request failed")
    if told.get("code") == _TOO_LONG:  # by these words clients know that they must shorten the conversation
        message = f"prompt is too long: {message}"
    more = {name: value for name, value in told.items() if name not in {"type", "message"} and value is not None}
    return {"type": "error", "error": {"type": kind, "message": message, **more}, "request_id": request_id}


def _type_of(status: int) -> str:
    return _TYPES.get(status) or ("api_error" if status >= _SERVER else "invalid_request_error")


def _status_of(told: Mapping[str, Any]) -> int:
    code = told.get("code")
    if isinstance(code, int):  # llama.cpp
        return code
    return _CODES.get(str(code)) or _STATUS.get(str(told.get("type"))) or _SERVER
