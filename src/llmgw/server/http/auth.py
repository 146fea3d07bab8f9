"""Who asks: `Authorization: Bearer TOKEN`. There is no other way into the API."""

from starlette.requests import Request

from llmgw.schema.errors import Unauthorized
from llmgw.schema.key import AdminRole, AdminToken
from llmgw.server.fleet import Fleet
from llmgw.server.services import tokens


def authorize(request: Request, fleet: Fleet, role: AdminRole) -> AdminToken:
    """Give the caller's token. Raises `Unauthorized`, or `Forbidden` when its role does not include `role`."""
    token = tokens.identify(fleet, _bearer(request))
    tokens.require(token, role)
    return token


def _bearer(request: Request) -> str:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return secret.strip()
    raise Unauthorized(
        "the admin API needs a token", hint="send Authorization: Bearer lt_…; llmgw ctl takes it from its context"
    )
