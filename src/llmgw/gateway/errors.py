"""Errors as clients get them: OpenAI's shape, a status, and when to try again."""

import re
from typing import Any

import msgspec

from llmgw.schema.openai.error import ErrorAnswer, ErrorObject

RETRY_AFTER_S = 2
"""Seconds in `retry-after` when nothing better is known; clients give up on values above 120."""

_ENCODE = msgspec.json.Encoder().encode
_DECODE: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
_FIELD = re.compile(r" - at `\$\.?(.*)`$")
_BYTE = re.compile(r" \(byte (\d+)\)$")
_REQUIRED = re.compile(r"missing required field `([^`]+)`(?: - at `\$\.?(.*)`)?$")

_CLIENT_FAULTS = (
    "image input is not supported",
    "audio input is not supported",
    "input is too large to process",
    "Failed to parse tools",
    "Failed to parse messages",
    "Unknown reasoning format",
)
"""llama.cpp answers these faults of the client with 500; a client would send them again and again."""

_RELAY_TYPES = {413: "invalid_request_error", 408: "invalid_request_error", 431: "invalid_request_error"}
_SERVER_ERROR = 500


class ApiError(Exception):
    """An error with all that its answer needs."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None,
        kind: str = "invalid_request_error",
        param: str | None = None,
        retry_after_s: int | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.kind = kind
        self.param = param
        self.retry_after_s = retry_after_s
        self.headers = headers

    def body(self) -> bytes:
        """Give the JSON body."""
        return error_body(self.message, kind=self.kind, param=self.param, code=self.code)

    def all_headers(self) -> list[tuple[bytes, bytes]]:
        """Give the headers that belong to this error, `content-type` included."""
        headers = [(b"content-type", b"application/json"), *self.headers]
        if self.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after_s))
        return headers


class EngineError(ApiError):
    """An error an engine told us, to be handed on: `raw` is its body in OpenAI's shape."""

    def __init__(self, status: int, raw: bytes, *, retry_after_s: int | None = None) -> None:
        super().__init__(status, f"engine answered {status}", code=None, retry_after_s=retry_after_s)
        self.raw = raw

    def body(self) -> bytes:
        """Give the engine's own words."""
        return self.raw


def error_body(message: str, *, kind: str, param: str | None = None, code: str | None = None) -> bytes:
    """Encode one error in OpenAI's shape."""
    return _ENCODE(ErrorAnswer(error=ErrorObject(message=message, type=kind, param=param, code=code)))


def error_event(message: str, *, code: str) -> bytes:
    """Give the server-sent event that tells clients of a cut stream: SDKs raise on its `error` member."""
    return b"data: " + error_body(message, kind="server_error", code=code) + b"\n\n"


def relay_error_body(status: int, code: str, message: str) -> bytes:
    """Render the errors the relay answers by itself (limits, broken HTTP)."""
    kind = "server_error" if status >= _SERVER_ERROR else _RELAY_TYPES.get(status, "invalid_request_error")
    return error_body(message, kind=kind, code=code)


def invalid_key(message: str) -> ApiError:
    """401, for a key that is missing or not ours."""
    return ApiError(401, message, code="invalid_api_key", headers=((b"www-authenticate", b"Bearer"),))


def keys_unknown() -> ApiError:
    """503: no control plane has told this gateway its keys yet, so nobody can be let in."""
    return ApiError(
        503,
        "this gateway has not learned its API keys yet: it has not reached a control plane since it was installed",
        code="keys_unknown",
        kind="server_error",
        retry_after_s=RETRY_AFTER_S,
    )


def model_not_found(model: str) -> ApiError:
    """404, for a model that no route names."""
    return ApiError(
        404,
        f"the model {model!r} does not exist here; GET /v1/models lists those that do",
        code="model_not_found",
        param="model",
    )


def model_unavailable(model: str, reason: str | None) -> ApiError:
    """503, for a model that no replica serves now."""
    why = reason or "no replica is ready"
    return ApiError(
        503,
        f"the model {model!r} cannot answer now: {why}",
        code="model_unavailable",
        kind="server_error",
        retry_after_s=RETRY_AFTER_S,
    )


def model_starting(model: str, reason: str | None, *, waited_s: float, retry_after_s: int) -> ApiError:
    """503, for a request that was held for a starting model as long as it may be."""
    progress = reason or "it is starting"
    return ApiError(
        503,
        f"the model {model!r} is not ready after {waited_s:.0f} seconds: {progress}; try again",
        code="model_starting",
        kind="server_error",
        retry_after_s=retry_after_s,
    )


def overloaded(
    model: str, *, waiting: int, waited_s: float | None = None, retry_after_s: int | None = None
) -> ApiError:
    """429: all slots are busy and the queue is full, or the wait was too long."""
    what = (
        f"{waiting} requests wait already" if waited_s is None else f"no slot came free within {waited_s:.0f} seconds"
    )
    return ApiError(
        429,
        f"the model {model!r} is busy: {what}; try again later",
        code="model_overloaded",
        kind="rate_limit_error",
        retry_after_s=retry_after_s or RETRY_AFTER_S,
    )


def upstream_failed(model: str, what: str) -> ApiError:
    """502, for replicas that broke before an answer was whole. `what` names no address."""
    return ApiError(502, f"the model {model!r} did not answer: {what}", code="upstream_error", kind="server_error")


def upstream_timeout(model: str) -> ApiError:
    """504, for a replica that stayed silent."""
    return ApiError(504, f"the model {model!r} did not answer in time", code="upstream_timeout", kind="server_error")


def malformed(raw: bytes, error: msgspec.DecodeError) -> ApiError:
    """400 that names the place: line, column and byte for broken JSON, the field for a wrong type."""
    text = str(error)
    if isinstance(error, msgspec.ValidationError):
        return _wrong_field(text)
    found = _BYTE.search(text)
    place = min(int(found[1]) if found else len(raw), len(raw))
    line = raw.count(b"\n", 0, place) + 1
    column = place - (raw.rfind(b"\n", 0, place) + 1) + 1
    reason = _BYTE.sub("", text).removeprefix("JSON is malformed: ")
    if "truncated" in reason:
        reason = "it ends too early"
    return ApiError(
        400,
        f"the request body is not JSON: {reason} at line {line}, column {column} (byte {place})",
        code="invalid_json",
    )


def _wrong_field(text: str) -> ApiError:
    missing = _REQUIRED.search(text)
    if missing:
        name = ".".join(filter(None, (missing[2], missing[1])))
        return ApiError(400, f"the field {name!r} is missing", code="missing_required_parameter", param=name)
    place = _FIELD.search(text)
    if place is None or not place[1]:
        return ApiError(400, f"the request body must be a JSON object: {text}", code="invalid_type")
    return ApiError(400, f"the field {place[1]!r}: {_FIELD.sub('', text)}", code="invalid_type", param=place[1])


def from_engine(status: int, body: bytes) -> EngineError:
    """Hand on an engine's error in OpenAI's shape, its own further members kept."""
    try:
        told = _DECODE.decode(body).get("error")
    except msgspec.DecodeError:
        told = None
    if not isinstance(told, dict):
        told = {"message": told if isinstance(told, str) else f"the engine answered {status}"}
    message = str(told.get("message") or f"the engine answered {status}")
    if status >= _SERVER_ERROR and any(fault in message for fault in _CLIENT_FAULTS):
        status = 400
    kind = told.get("type")
    code = told.get("code")
    shaped = {
        **told,
        "message": message,
        "type": kind if isinstance(kind, str) else _kind_of(status),
        "param": told.get("param"),
        "code": code if isinstance(code, str) else _code_of(kind),
    }
    return EngineError(status, _ENCODE({"error": shaped}))


def _kind_of(status: int) -> str:
    return "server_error" if status >= _SERVER_ERROR else "invalid_request_error"


def _code_of(kind: object) -> str | None:
    if kind == "exceed_context_size_error":
        return "context_length_exceeded"
    return kind if isinstance(kind, str) else None


def status_of(told: bytes) -> int:
    """Read the status out of an error inside a stream (`{"code": 400, …}`); 500 where it has none."""
    try:
        code = _DECODE.decode(told).get("code")
    except msgspec.DecodeError:
        return _SERVER_ERROR
    return code if isinstance(code, int) and 400 <= code < 600 else _SERVER_ERROR  # noqa: PLR2004 (the error statuses)
