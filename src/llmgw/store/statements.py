"""What is said to the database, in portable SQLAlchemy Core. Each function works inside a transaction of its caller."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Table, bindparam, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from llmgw.ports import (
    AppendEvent,
    DeleteAlias,
    DeleteEnrolment,
    DeleteJoinToken,
    DeleteModel,
    DeleteNode,
    DeletePolicy,
    DeleteReplica,
    FleetRows,
    PutAdminToken,
    PutAlias,
    PutApiKey,
    PutEnrolment,
    PutJoinToken,
    PutModel,
    PutNode,
    PutPolicy,
    PutReplica,
    PutSetting,
    PutStatus,
    ReplaceAll,
    Write,
)
from llmgw.schema.alias import Alias
from llmgw.schema.errors import Fenced
from llmgw.schema.event import Event
from llmgw.schema.guard.policy import StoredPolicy
from llmgw.schema.identity import Enrolment, JoinToken, Trust
from llmgw.schema.key import AdminToken, ApiKey
from llmgw.schema.lease import Fence
from llmgw.schema.member import Member
from llmgw.schema.model import Model, ModelStatus
from llmgw.schema.node import Node
from llmgw.schema.replica import Replica
from llmgw.schema.value import Value
from llmgw.store import backup, tables

V = TypeVar("V", bound=Value)

KEPT_EVENTS = 20_000
"""Older events are dropped, so that a fleet that flaps for weeks does not fill the disk (about 5 MB)."""


def load_fleet(connection: Connection) -> FleetRows:
    """Read all fleet tables."""
    return FleetRows(
        nodes=_all(connection, tables.nodes, Node),
        models=_all(connection, tables.models, Model),
        statuses=_all(connection, tables.model_statuses, ModelStatus),
        replicas=_all(connection, tables.replicas, Replica),
    )


def load_keys(connection: Connection) -> tuple[ApiKey, ...]:
    """Read all client keys."""
    return _all(connection, tables.api_keys, ApiKey)


def load_admin_tokens(connection: Connection) -> tuple[AdminToken, ...]:
    """Read all operators' tokens."""
    return _all(connection, tables.admin_tokens, AdminToken)


def load_trust(connection: Connection) -> Trust:
    """Read join tokens and the machines that joined."""
    return Trust(
        tokens=_all(connection, tables.join_tokens, JoinToken),
        enrolments=_all(connection, tables.enrolments, Enrolment),
    )


def load_policies(connection: Connection) -> tuple[StoredPolicy, ...]:
    """Read the policies of the guardrails."""
    return _all(connection, tables.policies, StoredPolicy)


def load_aliases(connection: Connection) -> tuple[Alias, ...]:
    """Read the aliases of models."""
    return _all(connection, tables.aliases, Alias)


def load_settings(connection: Connection) -> dict[str, str]:
    """Read the cluster settings."""
    rows = connection.execute(select(tables.settings.c.id, tables.settings.c.value))
    return {row.id: row.value for row in rows}


def load_version(connection: Connection) -> int:
    """Read the number that grows with each write of a leader."""
    return int(connection.execute(select(tables.fleet_version.c.version)).scalar_one())


def load_members(connection: Connection) -> tuple[Member, ...]:
    """Read what control planes say of themselves."""
    return _all(connection, tables.control_planes, Member)


def save_member(connection: Connection, member: Member) -> None:
    """Insert or replace what one control plane says of itself."""
    _replace_unfenced(connection, tables.control_planes, member.name, _body(member))


def delete_member(connection: Connection, name: str) -> None:
    """Forget a control plane."""
    _replace_unfenced(connection, tables.control_planes, name, None)


def load_events(connection: Connection, limit: int, before: int | None) -> tuple[Event, ...]:
    """Read the newest events with a number below `before`, newest first."""
    events = tables.events.c
    query = select(events.seq, events.body).order_by(events.seq.desc()).limit(limit)
    if before is not None:
        query = query.where(events.seq < before)
    rows = connection.execute(query)
    return tuple(replace(msgspec.json.decode(row.body, type=Event), seq=row.seq) for row in rows)


def check_fence(connection: Connection, fence: Fence) -> None:
    """Raise `Fenced` unless the lease row is `fence`'s and not released; hold the row until the transaction ends."""
    lease = tables.lease.c
    # A lock on the row: a takeover waits for this transaction, or this one sees the takeover. Not a shared one: writers
    # would meet in rows they both replace, and a stream of them could keep a renewal waiting.
    row = connection.execute(select(lease.holder, lease.epoch, lease.released).with_for_update()).first()
    if row is not None and row.holder == fence.holder and row.epoch == fence.epoch and not row.released:
        return
    found = "there is no lease" if row is None else f"the lease is at epoch {row.epoch}"
    raise Fenced(
        f"nothing was written: this control plane wrote as epoch {fence.epoch}, {found}",
        hint="another control plane leads, or this one is stopping; the request may be repeated",
    )


def carry_out(connection: Connection, writes: Sequence[Write]) -> None:
    """Carry out writes as if one after the other: the last write of a row decides, events keep their order.

    Many rows cost two statements a table, so that a whole fleet's change keeps the deadline of one call.
    """
    rows: dict[Table, dict[str, _Row]] = {}
    for write in writes:
        if isinstance(write, ReplaceAll):
            backup.put(connection, write.content)
            rows.clear()
        for table, row_id, row in _rows(write):
            rows.setdefault(table, {})[row_id] = row
    for table, by_id in rows.items():
        _replace(connection, table, by_id)
    version = tables.fleet_version.c.version
    connection.execute(update(tables.fleet_version).values({version: version + 1}))
    events = [{"body": _text(replace(write.event, seq=None))} for write in writes if isinstance(write, AppendEvent)]
    if events:
        connection.execute(insert(tables.events), events)
        _drop_old_events(connection)


_INSERT: Mapping[str, Callable[[Table], Any]] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}
"""By dialect; the portable `insert` knows no conflicts."""

_Row = dict[str, str] | None
"""A row's columns beside its id; `None` is no row."""


def _rows(write: Write) -> tuple[tuple[Table, str, _Row], ...]:  # noqa: C901, PLR0912 - a table of writes, one line each
    match write:
        case PutNode(node=node):
            return ((tables.nodes, node.id, _body(node)),)
        case DeleteNode(id=node_id):
            return ((tables.nodes, node_id, None),)
        case PutModel(model=model):
            return ((tables.models, model.name, _body(model)),)
        case DeleteModel(name=name):
            return (tables.models, name, None), (tables.model_statuses, name, None)
        case PutStatus(status=status):
            return ((tables.model_statuses, status.model, _body(status)),)
        case PutReplica(replica=replica):
            return ((tables.replicas, replica.id, _body(replica)),)
        case DeleteReplica(id=replica_id):
            return ((tables.replicas, replica_id, None),)
        case PutApiKey(key=key):
            return ((tables.api_keys, key.id, _body(key)),)
        case PutAdminToken(token=token):
            return ((tables.admin_tokens, token.id, _body(token)),)
        case PutJoinToken(token=join_token):
            return ((tables.join_tokens, join_token.id, _body(join_token)),)
        case DeleteJoinToken(id=join_token_id):
            return ((tables.join_tokens, join_token_id, None),)
        case PutEnrolment(enrolment=enrolment):
            return ((tables.enrolments, enrolment.id, _body(enrolment)),)
        case DeleteEnrolment(id=enrolment_id):
            return ((tables.enrolments, enrolment_id, None),)
        case PutPolicy(policy=policy):
            return ((tables.policies, policy.policy.name, _body(policy)),)
        case DeletePolicy(name=name):
            return ((tables.policies, name, None),)
        case PutAlias(alias=alias):
            return ((tables.aliases, alias.name, _body(alias)),)
        case DeleteAlias(name=name):
            return ((tables.aliases, name, None),)
        case PutSetting(name=name, value=value):
            return ((tables.settings, name, {"value": value}),)
        case AppendEvent() | ReplaceAll():
            return ()


def _replace(connection: Connection, table: Table, by_id: Mapping[str, _Row]) -> None:
    # Delete, then insert: portable, and safe because the fence lets in one writer at a time.
    connection.execute(delete(table).where(table.c.id == bindparam("row_id")), [{"row_id": key} for key in by_id])
    kept = [{"id": row_id, **row} for row_id, row in by_id.items() if row is not None]
    if kept:
        connection.execute(insert(table), kept)


def _replace_unfenced(connection: Connection, table: Table, row_id: str, row: _Row) -> None:
    """Insert, replace or delete one row in one statement: several control planes may do so at the same moment.

    A call that was given up may still be carried out by the database beside the one that follows it.
    """
    if table not in tables.UNFENCED:
        raise ValueError(f"{table.name} is written by the leader only")
    if row is None:
        connection.execute(delete(table).where(table.c.id == row_id))
        return
    insert_or = _INSERT[connection.dialect.name](table).values(id=row_id, **row)
    connection.execute(insert_or.on_conflict_do_update(index_elements=[table.c.id], set_=row))


def _all(connection: Connection, table: Table, kind: type[V]) -> tuple[V, ...]:
    decoder = msgspec.json.Decoder(kind)
    # Sorted here: databases order text by the rules of some language.
    rows = sorted(connection.execute(select(table.c.id, table.c.body)), key=lambda row: row.id)
    return tuple(decoder.decode(row.body) for row in rows)


def _drop_old_events(connection: Connection) -> None:
    newest = select(func.max(tables.events.c.seq)).scalar_subquery()
    connection.execute(delete(tables.events).where(tables.events.c.seq <= newest - KEPT_EVENTS))


def _body(value: Value) -> dict[str, str]:
    return {"body": _text(value)}


def _text(value: Value) -> str:
    return msgspec.json.encode(value).decode()
