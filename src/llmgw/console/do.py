"""Do: guided actions, each a form and its progress. The first: enabling a judge."""

from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llmgw.console.form import read_form, refuse_foreign
from llmgw.console.frame import SEE_OTHER, Frame, session_over
from llmgw.console.judge_steps import judge_steps
from llmgw.core.guard.judge_candidates import NAMES, candidates
from llmgw.core.guard.judge_evidence import asked_judges
from llmgw.schema.admin.guard import EnableJudge
from llmgw.schema.errors import Conflict, InvalidInput, LlmgwError, NotFound, Unauthorized
from llmgw.schema.key import AdminRole, AdminToken
from llmgw.server.services import judge_enable, judges, models, tokens

_FORM = "/do/judge"
_REFUSED = (Conflict, InvalidInput, NotFound)
"""What the form itself tells; other errors have a page of their own."""


def routes(frame: Frame) -> tuple[Route, ...]:
    """Give `/do`, the form of each action, and its progress."""

    async def page(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return RedirectResponse("/login", SEE_OTHER)
        return _render(frame, "do.html", visitor, judges=judges.judge_problems(frame.fleet))

    async def form(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return RedirectResponse("/login", SEE_OTHER)
        given = {"name": request.query_params.get("name", ""), "source": "", "replace": ""}
        return _form(frame, visitor, given)

    async def enable(request: Request) -> Response:
        return await _enable(frame, request)

    async def progress(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return RedirectResponse("/login", SEE_OTHER)
        return _progress(frame, "do_judge_progress.html", visitor, request.query_params.get("name", ""))

    async def live(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return session_over()
        return _progress(frame, "do_judge_live.html", visitor, request.query_params.get("name", ""))

    return (
        Route("/do", page, methods=["GET"]),
        Route(_FORM, form, methods=["GET"]),
        Route(_FORM, enable, methods=["POST"]),
        Route(f"{_FORM}/progress", progress, methods=["GET"]),
        Route(f"{_FORM}/live", live, methods=["GET"]),
    )


async def _enable(frame: Frame, request: Request) -> Response:
    refuse_foreign(request)
    visitor = frame.visitor(request)
    if visitor is None:
        raise Unauthorized("the session is over", hint="log in and try again")
    tokens.require(visitor, AdminRole.OPERATOR)
    given = await read_form(request)
    name = given.get("name", "").strip()
    body = EnableJudge(source=given.get("source", "").strip() or None, replace=bool(given.get("replace")))
    try:
        await judge_enable.enable(frame.fleet, frame.clock, name, body, actor=visitor.id)
    except _REFUSED as error:
        return _form(frame, visitor, given, problem=error)
    return RedirectResponse(f"{_FORM}/progress?name={quote(name, safe='')}", SEE_OTHER)


def _form(frame: Frame, visitor: AdminToken, given: dict[str, str], *, problem: LlmgwError | None = None) -> Response:
    fleet = frame.fleet
    asked = [one.model for one in asked_judges(fleet.policies)]
    first = next((one.model for one in judges.judge_problems(fleet)), asked[0] if asked else "guard")
    found = [(one.source, NAMES[one.family], ", ".join(one.nodes)) for one in candidates(fleet.rows.nodes, None)]
    return _render(
        frame,
        "do_judge.html",
        visitor,
        status=200 if problem is None else problem.status,
        problem=problem,
        name=given.get("name") or first,
        source=given.get("source", ""),
        replaces=bool(given.get("replace")),
        asked=asked,
        found=found,
    )


def _progress(frame: Frame, template: str, visitor: AdminToken, name: str) -> Response:
    model = next((row for row in models.all_models(frame.fleet) if row.name == name), None)
    judge = next((one for one in judges.judge_statuses(frame.fleet) if one.model == name), None)
    if model is None and judge is None:
        raise NotFound(f"there is no model {name!r}", hint="enable a judge of that name first")
    steps, address = judge_steps(model, judge), f"{_FORM}/live?name={quote(name, safe='')}"
    return _render(frame, template, visitor, name=name, steps=steps, judge=judge, address=address)


def _render(frame: Frame, template: str, visitor: AdminToken, *, status: int = 200, **values: Any) -> Response:
    now = frame.clock.now()
    return frame.pages.page(template, status=status, logged_in=True, here="do", visitor=visitor, now=now, **values)
