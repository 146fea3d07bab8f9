"""Logging in with an admin token, and out."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llmgw.console.form import read_form, refuse_foreign
from llmgw.console.frame import COOKIE, Frame
from llmgw.schema.errors import Unauthorized

_SEE_OTHER = 303


def routes(frame: Frame) -> tuple[Route, ...]:
    """Give `/login` and `/logout`."""

    async def form(request: Request) -> Response:
        if frame.visitor(request) is not None:
            return RedirectResponse("/", _SEE_OTHER)
        return frame.pages.page("login.html", problem=None)

    async def log_in(request: Request) -> Response:
        refuse_foreign(request)
        secret = (await read_form(request)).get("token", "").strip()
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


def _end(frame: Frame, request: Request) -> None:
    session = request.cookies.get(COOKIE)
    if session:
        frame.sessions.end(session)
