"""Running migrations, by Alembic, from the files inside this package."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from llmgw.schema.errors import StoreError

_SCRIPTS = Path(__file__).parent / "migrations"


def upgrade(connection: Connection, where: str, *, to: str = "head") -> None:
    """Run what is missing up to revision `to`, in the connection's transaction.

    Raises `StoreError` when a newer release wrote `where`.
    """
    config = _config()
    config.attributes["connection"] = connection
    known = set(revisions())
    found = MigrationContext.configure(connection).get_current_heads()
    unknown = sorted(set(found) - known)
    if unknown:
        raise StoreError(
            f"{where} was written by a newer release (schema {', '.join(unknown)})",
            hint="run that release or a newer one, or restore a backup from before the upgrade",
            code="store_too_new",
        )
    command.upgrade(config, to)


def revisions() -> tuple[str, ...]:
    """Give all revisions, newest first."""
    return tuple(script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    return config
