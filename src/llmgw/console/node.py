"""One node: how busy it is, what runs on it, what it is made of, and its last hour."""

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llmgw.console.chart import charts
from llmgw.console.cluster_rows import cluster_rows
from llmgw.console.frame import SEE_OTHER, Frame, session_over
from llmgw.console.node_engines import node_engines
from llmgw.schema.key import AdminToken
from llmgw.server.services import nodes, replicas


def routes(frame: Frame) -> tuple[Route, ...]:
    """Give `/nodes/ID`, and those of its parts that a page fetches again, each in its own time."""

    async def page(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return RedirectResponse("/login", SEE_OTHER)
        node_id = request.path_params["id"]
        now, hour = _now(frame, node_id), await _hour(frame, node_id)
        return _render(frame, "node.html", visitor, **now, **hour)

    async def live(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return session_over()
        return _render(frame, "node_live.html", visitor, **_now(frame, request.path_params["id"]))

    async def parts(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return session_over()
        return _render(frame, "node_parts.html", visitor, **_now(frame, request.path_params["id"]))

    async def hour(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return session_over()
        return _render(frame, "node_hour.html", visitor, **await _hour(frame, request.path_params["id"]))

    return (
        Route("/nodes/{id}", page, methods=["GET"]),
        Route("/nodes/{id}/live", live, methods=["GET"]),
        Route("/nodes/{id}/parts", parts, methods=["GET"]),
        Route("/nodes/{id}/hour", hour, methods=["GET"]),
    )


def _render(frame: Frame, template: str, visitor: AdminToken, **values: Any) -> Response:
    now = frame.clock.now()
    return frame.pages.page(template, logged_in=True, here="node", visitor=visitor, now=now, **values)


def _now(frame: Frame, node_id: str) -> dict[str, object]:
    node = nodes.one_node(frame.fleet, frame.clock, node_id)
    (row,) = cluster_rows((node,), leads=frame.fleet.is_leader())
    engines = node_engines(node, replicas.all_replicas(frame.fleet))
    holders = {device: engine.replica.model for engine in engines for device in engine.shard.allocation.devices}
    return {"row": row, "node": node, "load": node.load, "engines": engines, "holders": holders}


async def _hour(frame: Frame, node_id: str) -> dict[str, object]:
    node = nodes.find(frame.fleet.rows, node_id)
    history = await frame.history.hour(node_id)
    drawn = charts(history, now=frame.clock.now().timestamp(), memory_bytes=node.facts.memory_bytes)
    return {"node_id": node_id, "history": history, "charts": drawn}
