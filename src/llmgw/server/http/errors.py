"""Errors on the wire: one shape on every path."""

from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from llmgw.schema.errors import ErrorBody, LlmgwError, Unauthorized
from llmgw.schema.value import Value

JSON = "application/json"


class ErrorAnswer(Value, frozen=True, kw_only=True):
    """The body of every answer that is not a success."""

    error: ErrorBody


def error_response(status: int, body: ErrorBody, headers: Mapping[str, str] | None = None) -> Response:
    """Give the answer for an error."""
    sent = {"cache-control": "no-store", **(headers or {})}
    return Response(error_json(body), status, sent, media_type=JSON)


def error_json(body: ErrorBody) -> bytes:
    """Give the one shape."""
    return msgspec.json.encode(ErrorAnswer(error=body))


async def on_client_gone(_: Request, error: Exception) -> Response:
    """Nobody reads this answer: the client left while it sent its body. It is no fault of ours to be logged."""
    del error
    return Response(status_code=400)


async def on_llmgw_error(_: Request, error: Exception) -> Response:
    """Answer one of our own errors."""
    if not isinstance(error, LlmgwError):
        raise error
    headers = {"www-authenticate": 'Bearer realm="llmgw"'} if isinstance(error, Unauthorized) else None
    return error_response(error.status, error.body(), headers)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Answer what the framework refuses: an unknown path, a method that a path does not have."""
    if not isinstance(error, HTTPException):
        raise error
    headers = dict(error.headers or {})
    return error_response(error.status_code, _http_body(request, error.status_code, headers), headers)


async def on_crash(request: Request, _: Exception) -> Response:
    """Answer a fault of ours. The framework raises it again afterwards, so that the server logs it with its cause."""
    body = ErrorBody(
        code="internal",
        message=f"the control plane failed while answering {request.method} {request.url.path}",
        hint="its log tells the cause; please report it",
    )
    return error_response(500, body)


def _http_body(request: Request, status: int, headers: Mapping[str, str]) -> ErrorBody:
    path = request.url.path
    if status == 404:  # noqa: PLR2004 - an HTTP status is its own name
        return ErrorBody(
            code="not_found", message=f"there is nothing at {path}", hint="GET /api/v1/openapi.json lists all paths"
        )
    if status == 405:  # noqa: PLR2004 - the same
        methods = tuple(sorted(name.strip() for name in headers.get("Allow", "").split(",") if name.strip()))
        return ErrorBody(
            code="method_not_allowed",
            message=f"{path} does not take {request.method}",
            hint=f"it takes {', '.join(methods)}",
            allowed=methods,
        )
    return ErrorBody(code="http_error", message=f"{request.method} {path} was refused with status {status}")
