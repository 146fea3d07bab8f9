"""Client keys for `/v1`. The secret is shown once; only its keyed hash is stored."""

import re

import msgspec

from llmgw.ports import AppendEvent, Clock, FleetRows, PutApiKey, Write
from llmgw.schema.admin.key import MAX_NAME, PROJECT_PATTERN, CreatedKey, CreateKey, KeyRow
from llmgw.schema.errors import InvalidInput, NotFound
from llmgw.schema.event import Event, Severity
from llmgw.schema.key import ApiKey
from llmgw.server.fleet import Fleet
from llmgw.server.identity import SecretKind, hash_secret, new_secret, public_id

_PROJECT = re.compile(PROJECT_PATTERN)


def all_keys(fleet: Fleet) -> tuple[KeyRow, ...]:
    """Give all keys, revoked ones included, oldest first."""
    return tuple(_row(key) for key in sorted(fleet.api_keys, key=lambda key: (key.created_at, key.id)))


async def create(fleet: Fleet, clock: Clock, request: CreateKey, *, actor: str) -> CreatedKey:
    """Make a key. Names need not be unique: the id tells keys apart."""
    if not (request.name.strip() and request.name.isprintable() and len(request.name) <= MAX_NAME):
        raise InvalidInput(f"a key's name has 1 to {MAX_NAME} printable characters", field="name")
    if not _PROJECT.fullmatch(request.project):
        raise InvalidInput(
            "a project's name has up to 100 letters, digits, dots, underscores and hyphens", field="project"
        )
    secret = new_secret(SecretKind.API_KEY)
    key_id, now = public_id(secret), clock.now()

    # Decided while leading: only then is the cluster's hash key there for certain.
    def decide(_: FleetRows) -> tuple[Write, ...]:
        key = ApiKey(
            id=key_id,
            hash=hash_secret(fleet.hash_key, secret),
            name=request.name,
            project=request.project,
            created_at=now,
        )
        told = f"key {key_id} ({request.name}) was made for project {request.project}"
        return PutApiKey(key=key), _event(clock, "key.created", told, actor)

    await fleet.change(decide)
    return CreatedKey(key=_row(_find(fleet, key_id)), secret=secret)


async def revoke(fleet: Fleet, clock: Clock, key_id: str, *, actor: str) -> KeyRow:
    """Revoke a key for good; a second time is a no-op. Raises `NotFound`."""

    def decide(_: FleetRows) -> tuple[Write, ...]:
        key = _find(fleet, key_id)
        if key.revoked_at is not None:
            return ()
        revoked = msgspec.structs.replace(key, revoked_at=clock.now())
        return PutApiKey(key=revoked), _event(clock, "key.revoked", f"key {key.id} ({key.name}) was revoked", actor)

    await fleet.change(decide)
    return _row(_find(fleet, key_id))


def _find(fleet: Fleet, key_id: str) -> ApiKey:
    for key in fleet.api_keys:
        if key.id == key_id:
            return key
    raise NotFound(f"there is no key {key_id!r}", hint="llmgw ctl key list shows those there are")


def _row(key: ApiKey) -> KeyRow:
    return KeyRow(id=key.id, name=key.name, project=key.project, created_at=key.created_at, revoked_at=key.revoked_at)


def _event(clock: Clock, kind: str, message: str, actor: str) -> AppendEvent:
    return AppendEvent(event=Event(at=clock.now(), kind=kind, severity=Severity.INFO, message=message, actor=actor))
