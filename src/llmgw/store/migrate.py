"""Bringing a database's schema up to date, from the migrations inside this package."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from llmgw.schema.errors import StoreError, StoreUnavailable
from llmgw.store.backend import Backend

_SCRIPTS = Path(__file__).parent / "migrations"


def migrate(backend: Backend, *, deadline_s: float) -> None:
    """Run the migrations that are missing, all in one transaction.

    Raises `StoreUnavailable` when the database cannot be used, `StoreError` when a newer release wrote it.
    """
    engine = backend.engine(connections=1, deadline_s=deadline_s)
    try:
        with engine.connect().execution_options(**backend.write_options) as connection, connection.begin():
            _upgrade(connection, backend.where)
    except DBAPIError as error:
        raise StoreUnavailable(
            f"{backend.where} cannot be brought up to date: {error.orig}",
            hint="see that no other program uses it and that the disk is not full; restore a backup if it is damaged",
        ) from error
    finally:
        engine.dispose()


def _upgrade(connection: Connection, where: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    found = MigrationContext.configure(connection).get_current_heads()
    unknown = sorted(set(found) - known)
    if unknown:
        raise StoreError(
            f"{where} was written by a newer release (schema {', '.join(unknown)})",
            hint="run that release or a newer one, or restore a backup from before the upgrade",
            code="store_too_new",
        )
    command.upgrade(config, "head")
