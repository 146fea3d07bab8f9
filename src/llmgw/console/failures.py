"""What people see when something is wrong: a page for browsers, the API's error shape for everything else."""

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from llmgw.console.frame import Frame
from llmgw.schema.errors import ErrorBody, LlmgwError

_HTTP = {
    404: ErrorBody(code="not_found", message="There is nothing at this address.", hint="Start from the Overview."),
    405: ErrorBody(
        code="method_not_allowed", message="This address does not take that method.", hint="Start from the Overview."
    ),
}


class Failures:
    """Handlers for the framework."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    async def on_http_error(self, request: Request, error: Exception) -> Response:
        """Answer an unknown path or method."""
        if not isinstance(error, HTTPException):
            raise error
        body = _HTTP.get(error.status_code) or ErrorBody(code="http_error", message="The request was refused.")
        return self._answer(request, error.status_code, body, dict(error.headers or {}))

    async def on_llmgw_error(self, request: Request, error: Exception) -> Response:
        """Answer one of our own errors."""
        if not isinstance(error, LlmgwError):
            raise error
        return self._answer(request, error.status, error.body(), {})

    async def on_client_gone(self, _: Request, error: Exception) -> Response:
        """Nobody reads this answer: the client left while it sent its form. It is no fault of ours to be logged."""
        del error
        return Response(status_code=400)

    async def on_crash(self, request: Request, _: Exception) -> Response:
        """Answer a fault of ours; the framework raises it again afterwards, so that it is logged with its cause."""
        body = ErrorBody(
            code="internal",
            message=f"The control plane failed while answering {request.url.path}.",
            hint="Its log tells the cause; please report it.",
        )
        return self._answer(request, 500, body, {})

    def _answer(self, request: Request, status: int, body: ErrorBody, headers: dict[str, str]) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            logged_in = self._frame.visitor(request) is not None
            response: Response = self._frame.pages.page("failure.html", status=status, error=body, logged_in=logged_in)
        else:
            response = Response(msgspec.json.encode({"error": body}), status, media_type="application/json")
        response.headers.update(headers)
        return response
