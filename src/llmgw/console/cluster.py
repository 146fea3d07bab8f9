"""Cluster: all nodes in one table, those in trouble first."""

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llmgw.console.cluster_rows import MOST_ROWS, Column, Query, choices, cluster_rows, parse, select
from llmgw.console.frame import SEE_OTHER, Frame, session_over
from llmgw.schema.key import AdminToken
from llmgw.server.services import nodes

_COLUMNS = (
    (Column.NAME, "Node"),
    (Column.STATE, "State"),
    (Column.CPU, "CPU"),
    (Column.MEMORY, "RAM"),
    (Column.DEVICES, "Devices"),
    (Column.CLASS, "Class"),
    (Column.FABRIC, "Fabric"),
    (Column.REPLICAS, "Replicas"),
    (Column.AGE, "Age"),
    (Column.TROUBLE, "What is wrong"),
)


def routes(frame: Frame) -> tuple[Route, ...]:
    """Give `/cluster`, and the table that a page fetches again every two seconds."""

    async def page(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return RedirectResponse("/login", SEE_OTHER)
        return _render(frame, "cluster.html", visitor, parse(request.query_params))

    async def live(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return session_over()
        return _render(frame, "cluster_live.html", visitor, parse(request.query_params))

    return (Route("/cluster", page, methods=["GET"]), Route("/cluster/live", live, methods=["GET"]))


def _render(frame: Frame, template: str, visitor: AdminToken, query: Query) -> Response:
    rows = cluster_rows(nodes.all_nodes(frame.fleet, frame.clock), leads=frame.fleet.is_leader())
    found = select(rows, query)
    pages = max(1, -(-len(found) // MOST_ROWS))
    page = min(query.page, pages)
    return frame.pages.page(
        template,
        logged_in=True,
        here="cluster",
        visitor=visitor,
        now=frame.clock.now(),
        loaded=frame.fleet.loaded,
        query=query,
        columns=[
            (column.value, title, _next_order(column, query), _direction(column, query)) for column, title in _COLUMNS
        ],
        choices=choices(rows),
        total=len(rows),
        found=len(found),
        in_trouble=sum(bool(row.troubles) for row in rows),
        rows=found[(page - 1) * MOST_ROWS : page * MOST_ROWS],
        shown_page=page,
        pages=pages,
        address=lambda **changes: _address(query, **changes),
    )


def _next_order(column: Column, query: Query) -> str:
    """Give the order that a click on a column's head asks for."""
    if query.column is column and not query.descending:
        return f"-{column}"
    return str(column)


def _direction(column: Column, query: Query) -> str:
    if query.column is not column:
        return "none"
    return "descending" if query.descending else "ascending"


def _address(query: Query, **changes: object) -> str:
    """Give this page's address with some of its parameters changed."""
    parameters: dict[str, object] = {
        "q": query.q,
        "state": query.state,
        "fabric": query.fabric,
        "class": query.device_class,
        "sort": query.sort if query.sort != Column.TROUBLE else "",
        "page": query.page if query.page > 1 else "",
        **changes,
    }
    told = urlencode({name: value for name, value in parameters.items() if value})
    return f"/cluster?{told}" if told else "/cluster"
