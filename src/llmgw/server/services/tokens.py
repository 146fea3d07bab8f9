"""Operators' tokens: who asks, and what they may do. Deny by default."""

from llmgw.schema.errors import Forbidden, Unauthorized
from llmgw.schema.key import AdminRole, AdminToken
from llmgw.server.fleet import Fleet
from llmgw.server.identity import hash_secret, public_id, same_secret

_ORDER = tuple(AdminRole)


def identify(fleet: Fleet, secret: str) -> AdminToken:
    """Give the valid token that `secret` is. Raises `Unauthorized`, in the same words for every reason."""
    if not fleet.hash_key:
        raise Unauthorized("no token is known yet", hint="wait until a control plane leads, then try again")
    presented = hash_secret(fleet.hash_key, secret)
    wanted = public_id(secret)
    for token in fleet.admin_tokens:
        if token.id == wanted and same_secret(presented, token.hash) and token.revoked_at is None:
            return token
    raise Unauthorized("this is no valid admin token", hint="give a token that starts with lt_ and is not revoked")


def still_valid(fleet: Fleet, token_id: str) -> AdminToken | None:
    """Give the token with this id unless it was revoked or removed since."""
    for token in fleet.admin_tokens:
        if token.id == token_id and token.revoked_at is None:
            return token
    return None


def require(token: AdminToken, role: AdminRole) -> None:
    """Raise `Forbidden` unless the token's role is `role` or one that includes it."""
    if _ORDER.index(token.role) >= _ORDER.index(role):
        return
    raise Forbidden(
        f"token {token.id} has role {token.role}, this needs {role}",
        hint=f"use a token with role {' or '.join(_ORDER[_ORDER.index(role) :])}",
    )
