"""The store as rows for a file, and back.

Every table is in a backup but those named in `LEFT_OUT`; a test holds new ones to that.
"""

from collections.abc import Mapping

import msgspec
from sqlalchemy import Connection, MetaData, Table, create_engine, delete, insert, select
from sqlalchemy.exc import SQLAlchemyError

from llmgw.core.backup import too_new
from llmgw.schema.alias import Alias
from llmgw.schema.backup import Cell, Content, Row
from llmgw.schema.errors import InvalidInput, StoreError
from llmgw.schema.event import Event
from llmgw.schema.guard.policy import StoredPolicy
from llmgw.schema.identity import Enrolment, JoinToken
from llmgw.schema.key import AdminToken, ApiKey
from llmgw.schema.model import Model, ModelStatus
from llmgw.schema.node import Node
from llmgw.schema.replica import Replica
from llmgw.schema.value import Value
from llmgw.store import tables
from llmgw.store.migrate import HEAD, revision

LEFT_OUT: Mapping[str, str] = {
    "lease": "who leads is the new cluster's own; the epoch is told apart",
    "control_planes": "each control plane says anew what it is",
    "fleet_version": "it must go on growing where the backup is restored, so that standbys notice",
}
"""Tables that no backup holds, each with the reason."""

KINDS: Mapping[str, type[Value]] = {
    "nodes": Node,
    "models": Model,
    "model_statuses": ModelStatus,
    "replicas": Replica,
    "api_keys": ApiKey,
    "admin_tokens": AdminToken,
    "join_tokens": JoinToken,
    "enrolments": Enrolment,
    "policies": StoredPolicy,
    "aliases": Alias,
    "events": Event,
}
"""What the column `body` of each table holds."""

_DAMAGED = "take another copy of the file, or another backup"


def kept() -> tuple[Table, ...]:
    """Give the tables that backups hold."""
    return tuple(table for table in tables.metadata.sorted_tables if table.name not in LEFT_OUT)


def dump(connection: Connection) -> Content:
    """Read everything. Raises `StoreError` when a newer release has changed the schema meanwhile."""
    found = revision(connection)
    if found != HEAD:
        raise StoreError(
            f"the store has schema {found} by now, and this control plane knows {HEAD}: its backup would not be whole",
            hint="take the backup at a control plane of the newer release",
            code="store_too_new",
        )
    epoch = connection.scalar(select(tables.lease.c.epoch))
    return Content(schema=HEAD, epoch=epoch or 0, tables=_rows(connection))


def put(connection: Connection, content: Content) -> None:
    """Replace all rows by those of `content`, which is of the present schema: see `brought_forward`."""
    for table in kept():
        connection.execute(delete(table))
        given = [_without_numbers(table, row) for row in content.tables.get(table.name, ())]
        if given:
            connection.execute(insert(table), given)


def brought_forward(content: Content) -> Content:
    """Give `content` as of the present schema: the migrations are run over it in a database in memory.

    Raises `InvalidInput` for what no release of llmgw can have written, and for what a newer one wrote. May block.
    """
    # Alembic costs half a second to import, which only those who restore need to wait for.
    from llmgw.store.upgrade import revisions, upgrade

    if content.schema not in revisions():
        raise too_new(f"schema {content.schema}", f"schemas up to {HEAD}")
    engine = create_engine("sqlite://", hide_parameters=True)
    try:
        with engine.begin() as connection:
            upgrade(connection, "the backup", to=content.schema)
            _fill(connection, content)
            upgrade(connection, "the backup")
            forward = msgspec.structs.replace(content, schema=HEAD, tables=_rows(connection))
    except SQLAlchemyError as error:
        words = str(getattr(error, "orig", None) or error).partition("\n")[0]
        raise _damaged(f"its rows are not of schema {content.schema}: {words}") from error
    finally:
        engine.dispose()
    _check_bodies(forward)
    return forward


def _rows(connection: Connection) -> dict[str, tuple[Row, ...]]:
    found: dict[str, tuple[Row, ...]] = {}
    for table in kept():
        key = next(iter(table.primary_key)).name
        rows = [dict(row) for row in connection.execute(select(table)).mappings()]
        # Sorted here: databases order text by the rules of some language.
        found[table.name] = tuple(sorted(rows, key=lambda row: _order(row[key])))
    return found


def _order(cell: Cell) -> tuple[int, str]:
    return (cell, "") if isinstance(cell, int) else (0, str(cell))


def _without_numbers(table: Table, row: Row) -> Row:
    """Leave out what the database counts itself: its counter must stay ahead of the rows."""
    counted = table.autoincrement_column
    if counted is None or counted.autoincrement is not True:
        return row
    return {name: value for name, value in row.items() if name != counted.name}


def _fill(connection: Connection, content: Content) -> None:
    there = MetaData()
    there.reflect(connection)
    for name, rows in content.tables.items():
        if name not in there.tables or name in LEFT_OUT:
            raise _damaged(f"schema {content.schema} has no table {name} in backups")
        table = there.tables[name]
        for row in rows:
            if set(row) != set(table.columns.keys()):
                raise _damaged(f"table {name} has columns {', '.join(table.columns.keys())}, a row {', '.join(row)}")
        if rows:
            connection.execute(insert(table), list(rows))


def _check_bodies(content: Content) -> None:
    for name, kind in KINDS.items():
        decoder = msgspec.json.Decoder(kind)
        for row in content.tables[name]:
            try:
                decoder.decode(str(row["body"]))
            except msgspec.MsgspecError as error:
                raise _damaged(f"{name} {next(iter(row.values()))}: {error}") from error


def _damaged(what: str) -> InvalidInput:
    return InvalidInput(f"the backup is damaged: {what}", hint=_DAMAGED, field="backup", code="backup_unreadable")
