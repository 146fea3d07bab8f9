"""Bringing a database's schema up to date, from the migrations inside this package."""

from contextlib import closing

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select

from llmgw.store.backend import Backend
from llmgw.store.calls import Calls

DEADLINE_S = 30.0
"""Of all migrations together, and of waiting for another control plane that runs them."""

HEAD = "0005"
"""Revision of the newest migration; a test holds it to the files."""

_VERSIONS = Table("alembic_version", MetaData(), Column("version_num", String, primary_key=True))


def migrate(backend: Backend, *, deadline_s: float = DEADLINE_S) -> None:
    """Run the migrations that are missing, all in one transaction; of several processes at once, one does it.

    Raises `StoreUnavailable` when the database cannot be used, `StoreError` when a newer release wrote it, or an
    older one leads that could not bear what they do.
    """

    def work(connection: Connection) -> None:
        backend.lock_schema(connection)
        if revision(connection) == HEAD:
            return
        # Alembic costs half a second to import, which a control plane that only starts again need not wait for.
        from llmgw.store.upgrade import migrate_checked

        migrate_checked(connection, backend.where, alone=backend.proves_old_holder_dead())

    with closing(Calls(backend, threads=1, deadline_s=deadline_s, observe=None)) as calls:
        calls.wait_for("migrations", work, write=True)


def revision(connection: Connection) -> str | None:
    """Give the revision of the schema as it is now; `None` where there is none."""
    if not inspect(connection).has_table(_VERSIONS.name):
        return None
    return connection.scalar(select(_VERSIONS.c.version_num))
