"""The control plane's HTTP face: probes, the admin API, and the console on every other path."""

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp

from llmgw.config.server import ServerConfig
from llmgw.ports import Clock, Store
from llmgw.schema.errors import LlmgwError
from llmgw.schema.key import AdminRole
from llmgw.server.fleet import Fleet
from llmgw.server.hand_over import HandingOver
from llmgw.server.history import KeptHistory
from llmgw.server.http import (
    aliases,
    backup,
    control_planes,
    guard,
    join_tokens,
    keys,
    models,
    nodes,
    openapi,
    replicas,
    tokens,
)
from llmgw.server.http import fleet as fleet_routes
from llmgw.server.http.auth import authorize
from llmgw.server.http.context import Context
from llmgw.server.http.errors import JSON, on_client_gone, on_crash, on_http_error, on_llmgw_error
from llmgw.server.http.peer import demand_route, standby_route
from llmgw.server.http.probes import probe_routes
from llmgw.server.http.typed_route import TypedRoute, bind
from llmgw.server.metrics_export import MetricsExport, Samples
from llmgw.server.restore import Restore
from llmgw.server.services.node_history import NodeHistory
from llmgw.server.standby import Standby

ROUTES: tuple[TypedRoute, ...] = (
    *fleet_routes.ROUTES,
    *nodes.ROUTES,
    *models.ROUTES,
    *aliases.ROUTES,
    *replicas.ROUTES,
    *keys.ROUTES,
    *control_planes.ROUTES,
    *backup.ROUTES,
    *tokens.ROUTES,
    *join_tokens.ROUTES,
    *guard.ROUTES,
)


def build_app(
    fleet: Fleet,
    clock: Clock,
    store: Store,
    *,
    config: ServerConfig,
    version: str,
    history: NodeHistory | None = None,
    restore: Restore | None = None,
    standby: Standby | None = None,
    handing_over: HandingOver | None = None,
    process: Samples = tuple,
    console: ASGIApp | None = None,
) -> Starlette:
    """Put probes and API together; `console` answers every path that is neither.

    `history` gives hours of nodes; without one, nothing is known of any. `restore` puts a backup in place; without it,
    none is. `standby` and `handing_over` are this control plane's sides towards the others; without them, there are
    none. `process` gives the metrics of this process.
    """
    history = history or NodeHistory(fleet, clock, KeptHistory(fleet, clock))
    context = Context(
        fleet=fleet,
        clock=clock,
        store=store,
        config=config,
        history=history,
        version=version,
        restore=restore,
        standby=standby,
    )
    api = Router([_description(context), *bind(ROUTES, context)], redirect_slashes=False)
    app = Starlette(
        routes=[
            *probe_routes(context, MetricsExport(fleet, process=process)),
            *(() if standby is None else (demand_route(fleet, standby.take),)),
            *(() if handing_over is None else (standby_route(fleet, handing_over),)),
            Mount("/api/v1", app=api),
            _nothing_else(),
        ],
        exception_handlers={
            LlmgwError: on_llmgw_error,
            HTTPException: on_http_error,
            ClientDisconnect: on_client_gone,
            Exception: on_crash,
        },
    )
    app.router.redirect_slashes = False
    if console is not None:
        # Not a mount at "/": that would answer before "this path does not take that method" could.
        app.router.default = console
    return app


def _description(context: Context) -> Route:
    document = msgspec.json.encode(openapi.document(ROUTES, version=context.version))

    async def endpoint(request: Request) -> Response:
        authorize(request, context.fleet, AdminRole.VIEWER)
        return Response(document, media_type=JSON)

    return Route("/openapi.json", endpoint, methods=["GET"])


def _nothing_else() -> Mount:
    """Unknown paths below /api are the API's to refuse, not the console's."""
    return Mount("/api", app=Router(redirect_slashes=False))
