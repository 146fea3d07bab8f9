"""Logging in with an admin token, and out."""

from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llmgw.console.frame import COOKIE, Frame
from llmgw.schema.errors import Forbidden, TooLarge, Unauthorized

_MAX_FORM = 16 * 1024
_SEE_OTHER = 303


def routes(frame: Frame) -> tuple[Route, ...]:
    """Give `/login` and `/logout`."""

    async def form(request: Request) -> Response:
        if frame.visitor(request) is not None:
            return RedirectResponse("/", _SEE_OTHER)
        return frame.pages.page("login.html", problem=None)

    async def log_in(request: Request) -> Response:
        refuse_foreign(request)
        secret = (await _form(request)).get("token", "").strip()
        try:
            session = frame.sessions.open(secret)
        except Unauthorized as error:
            return frame.pages.page("login.html", status=error.status, problem=error)
        _end(frame, request)
        response = RedirectResponse("/", _SEE_OTHER)
        response.set_cookie(
            COOKIE, session, path="/", httponly=True, samesite="lax", secure=request.url.scheme == "https"
        )
        return response

    async def log_out(request: Request) -> Response:
        refuse_foreign(request)
        _end(frame, request)
        response = RedirectResponse("/login", _SEE_OTHER)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax")
        return response

    return (
        Route("/login", form, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
    )


def refuse_foreign(request: Request) -> None:
    """Raise `Forbidden` unless the request comes from a page of this console.

    Every browser states the origin with a POST. One that does not is refused: deny by default.
    """
    origin = request.headers.get("origin", "")
    scheme, separator, host = origin.partition("://")
    if separator and scheme in {"http", "https"} and host == request.headers.get("host"):
        return
    raise Forbidden(
        "this request does not come from a page of this console", hint="open the console in a browser and try again"
    )


def _end(frame: Frame, request: Request) -> None:
    session = request.cookies.get(COOKIE)
    if session:
        frame.sessions.end(session)


async def _form(request: Request) -> dict[str, str]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_FORM:
            raise TooLarge(f"the form is larger than {_MAX_FORM} bytes")
    return {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
