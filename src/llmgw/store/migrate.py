"""Bringing a database's schema up to date, from the migrations inside this package."""

from contextlib import closing
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from llmgw.schema.errors import StoreError
from llmgw.store.backend import Backend
from llmgw.store.calls import Calls

DEADLINE_S = 30.0
"""Of all migrations together, and of waiting for another control plane that runs them."""

_SCRIPTS = Path(__file__).parent / "migrations"


def migrate(backend: Backend, *, deadline_s: float = DEADLINE_S) -> None:
    """Run the migrations that are missing, all in one transaction; of several processes at once, one does it.

    Raises `StoreUnavailable` when the database cannot be used, `StoreError` when a newer release wrote it.
    """

    def work(connection: Connection) -> None:
        backend.lock_schema(connection)
        _upgrade(connection, backend.where)

    with closing(Calls(backend, threads=1, deadline_s=deadline_s, observe=None)) as calls:
        calls.wait_for("migrations", work, write=True)


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
