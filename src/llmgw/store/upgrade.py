"""Running migrations, by Alembic, from the files inside this package."""

import time
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, select

from llmgw.schema.errors import StoreError
from llmgw.schema.value import Value
from llmgw.store import tables
from llmgw.telemetry import log

WATCH_S = 4.0
"""How long a lease is watched for a sign of life: it is renewed each 1.5 s, and a call may take 1 s."""

_SCRIPTS = Path(__file__).parent / "migrations"
_log = log.get(__name__)


class Step(Value, frozen=True, kw_only=True):
    """One migration."""

    revision: str
    what: str
    """In words: the first line of its file."""
    older_releases_run_on: bool
    """Control planes of releases before it can go on working beside it, until they are upgraded."""


def migrate_checked(connection: Connection, where: str, *, alone: bool) -> None:
    """Say what is missing, look whether it may be done now, and do it, all in the connection's transaction.

    `alone`: no other process can use the database. Raises `StoreError` when a newer release wrote `where`, and while a
    control plane of an older release leads that could not work with what would become of it.
    """
    steps = pending(connection, where)
    known = inspect(connection).has_table(tables.lease.name)
    for step in steps if known else ():
        _log.info("store.migrates", store=where, to=step.revision, what=step.what)
    unbearable = [step for step in steps if not step.older_releases_run_on]
    leader = _living_leader(connection) if unbearable and known and not alone else None
    if leader is not None:
        raise StoreError(
            f"{where} is not migrated: {leader} leads with an older release, which cannot work with schema "
            f"{unbearable[0].revision} ({unbearable[0].what})",
            hint="stop all control planes of the older release, then start this one; models go on being served",
            code="store_in_use",
        )
    upgrade(connection, where)


def upgrade(connection: Connection, where: str, *, to: str = "head") -> None:
    """Run what is missing up to revision `to`, in the connection's transaction.

    Raises `StoreError` when a newer release wrote `where`.
    """
    _current(connection, where)
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def pending(connection: Connection, where: str) -> tuple[Step, ...]:
    """Give the migrations that are missing, in their order. Raises `StoreError` when a newer release wrote `where`."""
    current = _current(connection, where)
    missing = ScriptDirectory.from_config(_config()).iterate_revisions("head", current or "base")
    return tuple(
        Step(
            revision=script.revision,
            what=script.doc,
            older_releases_run_on=script.module.older_releases_run_on,
        )
        for script in reversed(tuple(missing))
    )


def revisions() -> tuple[str, ...]:
    """Give all revisions, newest first."""
    return tuple(script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())


def _current(connection: Connection, where: str) -> str | None:
    found = MigrationContext.configure(connection).get_current_heads()
    unknown = sorted(set(found) - set(revisions()))
    if unknown:
        raise StoreError(
            f"{where} was written by a newer release (schema {', '.join(unknown)})",
            hint="run that release or a newer one, or restore a backup from before the upgrade",
            code="store_too_new",
        )
    return found[0] if found else None


def _living_leader(connection: Connection) -> str | None:
    """Name who renews the lease while we watch; its clock and ours are never compared."""
    lease = tables.lease.c
    row = select(lease.name, lease.holder, lease.epoch, lease.beat, lease.released)
    before = connection.execute(row).first()
    time.sleep(WATCH_S)
    after = connection.execute(row).first()
    return None if after is None or after.released or after == before else str(after.name)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    return config
