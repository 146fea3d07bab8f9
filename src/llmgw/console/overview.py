"""Overview: what needs you, how to call it, and the whole fleet on one page."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llmgw.console.frame import SEE_OTHER, Frame, session_over
from llmgw.console.needs import needs
from llmgw.schema.admin.model import ModelRow, ModelState
from llmgw.schema.errors import StoreError
from llmgw.schema.event import Event
from llmgw.schema.key import AdminToken
from llmgw.schema.model import Role
from llmgw.server.services import events, models, nodes, replicas
from llmgw.server.services.summary import summary

_EVENTS = 12


def routes(frame: Frame) -> tuple[Route, ...]:
    """Give `/`, and the part of it that a page fetches again every two seconds."""

    async def page(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return RedirectResponse("/login", SEE_OTHER)
        return await _render(frame, "overview.html", visitor)

    async def live(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return session_over()
        return await _render(frame, "overview_live.html", visitor)

    return (Route("/", page, methods=["GET"]), Route("/overview/live", live, methods=["GET"]))


async def _render(frame: Frame, template: str, visitor: AdminToken) -> Response:
    fleet = frame.fleet
    happened, unread = await _events(frame)
    shown_models = models.all_models(fleet)
    shown_nodes = nodes.all_nodes(fleet, frame.clock)
    status = fleet.leader_status()
    whole = summary(fleet, version=frame.version)
    return frame.pages.page(
        template,
        logged_in=True,
        here="overview",
        visitor=visitor,
        now=frame.clock.now(),
        leader=status,
        leads=fleet.is_leader(),
        name=frame.config.name,
        summary=whole,
        needs=needs(
            shown_models,
            shown_nodes,
            summary=whole,
            leading=fleet.is_leader(),
            leader=status.leader_name,
            loaded=fleet.loaded,
        ),
        models=shown_models,
        nodes=shown_nodes,
        replicas=replicas.all_replicas(fleet),
        gateways=fleet.gateways,
        events=happened,
        events_problem=unread,
        base_url=frame.config.gateway_url,
        example=_example(shown_models),
    )


async def _events(frame: Frame) -> tuple[tuple[Event, ...], str | None]:
    """Give the last events; a store that is away must not take the page with it."""
    try:
        found = await events.recent(frame.store, limit=_EVENTS)
    except StoreError as error:
        return (), error.message
    return found.events, None


def _example(shown: tuple[ModelRow, ...]) -> ModelRow | None:
    """Choose the model the ready call asks: one that answers, best one that chats."""
    ready = [row for row in shown if row.state is ModelState.READY and row.ready]
    chatting = [row for row in ready if row.role is Role.CHAT]
    return next(iter(chatting or ready), None)
