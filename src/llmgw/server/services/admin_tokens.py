"""Making and revoking operators' tokens. The secret is shown once; only its keyed hash is stored."""

import msgspec

from llmgw.ports import AppendEvent, Clock, FleetRows, PutAdminToken, Write
from llmgw.schema.admin.key import MAX_NAME
from llmgw.schema.admin.token import CreatedToken, CreateToken, TokenRow
from llmgw.schema.errors import Conflict, InvalidInput, NotFound
from llmgw.schema.event import Event, Severity
from llmgw.schema.key import AdminRole, AdminToken
from llmgw.server.fleet import Fleet
from llmgw.server.identity import SecretKind, hash_secret, new_secret, public_id


def all_tokens(fleet: Fleet) -> tuple[TokenRow, ...]:
    """Give all tokens, revoked ones included, oldest first."""
    return tuple(_row(token) for token in sorted(fleet.admin_tokens, key=lambda token: (token.created_at, token.id)))


async def create(fleet: Fleet, clock: Clock, request: CreateToken, *, actor: str) -> CreatedToken:
    """Make a token. Names need not be unique: the id tells tokens apart."""
    if not (request.name.strip() and request.name.isprintable() and len(request.name) <= MAX_NAME):
        raise InvalidInput(f"a token's name has 1 to {MAX_NAME} printable characters", field="name")
    secret = new_secret(SecretKind.ADMIN_TOKEN)
    token_id, now = public_id(secret), clock.now()

    # Decided while leading: only then is the cluster's hash key there for certain.
    def decide(_: FleetRows) -> tuple[Write, ...]:
        token = AdminToken(
            id=token_id,
            hash=hash_secret(fleet.hash_key, secret),
            name=request.name,
            role=request.role,
            created_at=now,
        )
        told = f"token {token_id} ({request.name}) was made with role {request.role}"
        return PutAdminToken(token=token), _event(clock, "token.created", told, actor)

    await fleet.change(decide)
    return CreatedToken(token=_row(_find(fleet, token_id)), secret=secret)


async def revoke(fleet: Fleet, clock: Clock, token_id: str, *, actor: str) -> TokenRow:
    """Revoke a token for good; a second time is a no-op.

    Raises `NotFound`, and `Conflict` for the last one that may make others: nobody could ever make one again.
    """

    def decide(_: FleetRows) -> tuple[Write, ...]:
        token = _find(fleet, token_id)
        if token.revoked_at is not None:
            return ()
        if _is_last_admin(fleet, token):
            raise Conflict(
                f"token {token.id} is the last one with role {AdminRole.ADMIN}",
                hint="make another one first: llmgw ctl token create NAME --role admin",
            )
        revoked = msgspec.structs.replace(token, revoked_at=clock.now())
        told = f"token {token.id} ({token.name}) was revoked"
        return PutAdminToken(token=revoked), _event(clock, "token.revoked", told, actor)

    await fleet.change(decide)
    return _row(_find(fleet, token_id))


def _is_last_admin(fleet: Fleet, token: AdminToken) -> bool:
    admins = [one.id for one in fleet.admin_tokens if one.role is AdminRole.ADMIN and one.revoked_at is None]
    return admins == [token.id]


def _find(fleet: Fleet, token_id: str) -> AdminToken:
    for token in fleet.admin_tokens:
        if token.id == token_id:
            return token
    raise NotFound(f"there is no token {token_id!r}", hint="llmgw ctl token list shows those there are")


def _row(token: AdminToken) -> TokenRow:
    return TokenRow(
        id=token.id, name=token.name, role=token.role, created_at=token.created_at, revoked_at=token.revoked_at
    )


def _event(clock: Clock, kind: str, message: str, actor: str) -> AppendEvent:
    return AppendEvent(event=Event(at=clock.now(), kind=kind, severity=Severity.INFO, message=message, actor=actor))
