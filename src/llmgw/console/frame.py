"""What every page may use, and who looks at it."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from llmgw.config.server import ServerConfig
from llmgw.console.pages import Pages
from llmgw.ports import Clock, Store
from llmgw.schema.key import AdminToken
from llmgw.server.fleet import Fleet
from llmgw.server.services.node_history import NodeHistory
from llmgw.server.services.sessions import Sessions

COOKIE = "llmgw_session"
SEE_OTHER = 303


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Built once by `build_console`."""

    fleet: Fleet
    clock: Clock
    store: Store
    config: ServerConfig
    history: NodeHistory
    version: str
    sessions: Sessions
    pages: Pages

    def visitor(self, request: Request) -> AdminToken | None:
        """Give the token of whoever looks; `None` for somebody who is not logged in."""
        session = request.cookies.get(COOKIE)
        return self.sessions.token(session) if session else None


def session_over() -> Response:
    """Answer a part of a page that asks again after its session ended: the page goes to the login by itself."""
    return Response(status_code=401, headers={"hx-redirect": "/login", "cache-control": "no-store"})
