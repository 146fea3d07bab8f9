"""The console: pages for people, rendered here, refreshed in place. Uses the services that the API uses."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import ASGIApp

from llmgw.config.server import ServerConfig
from llmgw.console import assets, cluster, do, guard, login, node, overview
from llmgw.console.failures import Failures
from llmgw.console.frame import Frame
from llmgw.console.headers import SafeHeaders
from llmgw.console.pages import Pages
from llmgw.ports import Clock, Store
from llmgw.schema.errors import LlmgwError
from llmgw.server.fleet import Fleet
from llmgw.server.history import KeptHistory
from llmgw.server.services.node_history import NodeHistory
from llmgw.server.services.sessions import Sessions


def build_console(
    fleet: Fleet,
    clock: Clock,
    store: Store,
    *,
    config: ServerConfig,
    version: str,
    history: NodeHistory | None = None,
) -> ASGIApp:
    """Build the console. It answers every path it is given, unknown ones with a page that says so."""
    files = assets.load()
    frame = Frame(
        fleet=fleet,
        clock=clock,
        store=store,
        config=config,
        history=history or NodeHistory(fleet, clock, KeptHistory(fleet, clock)),
        version=version,
        sessions=Sessions(fleet, clock),
        pages=Pages(clock, version=version, files=files),
    )
    failures = Failures(frame)
    routes: list[Route] = [
        *overview.routes(frame),
        *cluster.routes(frame),
        *node.routes(frame),
        *guard.routes(frame),
        *do.routes(frame),
        *login.routes(frame),
        *assets.routes(files),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: failures.on_http_error,
            LlmgwError: failures.on_llmgw_error,
            ClientDisconnect: failures.on_client_gone,
            Exception: failures.on_crash,
        },
    )
    app.router.redirect_slashes = False
    return SafeHeaders(app)
