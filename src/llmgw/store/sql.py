"""The store over a SQL database."""

import asyncio
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, make_url
from sqlalchemy.exc import ArgumentError

from llmgw.ports import FleetRows, ReplaceAll, Write
from llmgw.schema.alias import Alias
from llmgw.schema.backup import Content
from llmgw.schema.errors import InvalidInput
from llmgw.schema.event import Event
from llmgw.schema.guard.policy import StoredPolicy
from llmgw.schema.identity import Trust
from llmgw.schema.key import AdminToken, ApiKey
from llmgw.schema.lease import Fence
from llmgw.schema.member import Member
from llmgw.schema.store import PostgresWord
from llmgw.store import backup, statements
from llmgw.store.backend import Backend, Observe
from llmgw.store.calls import Calls
from llmgw.store.lease import SqlLeaseStore
from llmgw.store.migrate import migrate
from llmgw.store.sqlite import SqliteBackend

DEADLINE_S = 1.0
"""Of each call (ha.md, decision 4: a client without its own deadline hung for over 100 s)."""

FLEET_S = 10.0
"""Deadline of reading the fleet: 10,000 nodes with their weights take a second or two. A store that is away is noticed
by the shorter calls before it."""

WHOLE_S = 60.0
"""Deadline of a call that reads or writes everything: a fleet of 10,000 nodes has below 100 MB."""

_THREADS = 4


def open_store(
    url: str, *, password: str | None = None, deadline_s: float = DEADLINE_S, observe: Observe | None = None
) -> "SqlStore":
    """Claim the database, bring its schema up to date, and give the store. Blocks; call it at start.

    `password` is for a database that asks for one and a URL that holds none.
    Raises `InvalidInput` for a URL or place that cannot be used, `Conflict` when another process has it,
    `StoreUnavailable` when it cannot be opened, `StoreError` when a newer release wrote it.
    """
    backend = _backend(url, password)
    backend.claim()
    try:
        migrate(backend)
    except BaseException:
        backend.close()
        raise
    return SqlStore(backend, deadline_s=deadline_s, observe=observe)


class SqlStore:
    """A `Store` over a database whose schema is up to date; see `open_store`."""

    def __init__(self, backend: Backend, *, deadline_s: float = DEADLINE_S, observe: Observe | None = None) -> None:
        self._backend = backend
        self._deadline_s = deadline_s
        self._observe = observe
        self._calls = Calls(backend, threads=_THREADS, deadline_s=deadline_s, observe=observe)

    async def load_fleet(self) -> FleetRows:
        """Read all fleet tables in one consistent snapshot. Has a longer deadline than other calls."""
        return await self._calls.run("load_fleet", statements.load_fleet, write=False, deadline_s=FLEET_S)

    async def load_keys(self) -> tuple[ApiKey, ...]:
        """Read all client keys, revoked ones included."""
        return await self._calls.run("load_keys", statements.load_keys, write=False)

    async def load_admin_tokens(self) -> tuple[AdminToken, ...]:
        """Read all operators' tokens, revoked ones included."""
        return await self._calls.run("load_admin_tokens", statements.load_admin_tokens, write=False)

    async def load_trust(self) -> Trust:
        """Read join tokens and the machines that joined."""
        return await self._calls.run("load_trust", statements.load_trust, write=False)

    async def load_policies(self) -> tuple[StoredPolicy, ...]:
        """Read the policies of the guardrails, by name."""
        return await self._calls.run("load_policies", statements.load_policies, write=False)

    async def load_aliases(self) -> tuple[Alias, ...]:
        """Read the aliases of models, by name."""
        return await self._calls.run("load_aliases", statements.load_aliases, write=False)

    async def load_settings(self) -> dict[str, str]:
        """Read the cluster settings."""
        return await self._calls.run("load_settings", statements.load_settings, write=False)

    async def load_version(self) -> int:
        """Read a number that grows with each write of a leader: equal numbers, equal tables."""
        return await self._calls.run("load_version", statements.load_version, write=False)

    async def load_members(self) -> tuple[Member, ...]:
        """Read what control planes say of themselves, by name."""
        return await self._calls.run("load_members", statements.load_members, write=False)

    async def save_member(self, member: Member) -> None:
        """Insert or replace what one control plane says of itself; any may, whoever leads."""
        await self._calls.run("save_member", lambda connection: statements.save_member(connection, member), write=True)

    async def delete_member(self, name: str) -> None:
        """Forget a control plane; no-op when it is not known."""
        await self._calls.run(
            "delete_member", lambda connection: statements.delete_member(connection, name), write=True
        )

    async def load_events(self, *, limit: int, before: int | None = None) -> tuple[Event, ...]:
        """Read the newest `limit` events with `seq` below `before`, newest first."""
        return await self._calls.run(
            "load_events", lambda connection: statements.load_events(connection, limit, before), write=False
        )

    async def dump(self) -> Content:
        """Read everything that backups hold in one consistent snapshot. Has a longer deadline than other calls."""
        return await self._calls.run("dump", backup.dump, write=False, deadline_s=WHOLE_S)

    def words(self, asked: Iterable[tuple[str, str]]) -> dict[tuple[str, str], PostgresWord | None]:
        """Ask the database's servers, by host and port, what they are; `None` for who is silent. Blocks up to 1 s."""
        return self._backend.words(asked, deadline_s=DEADLINE_S)

    def leader(self, fence: Fence) -> "SqlLeaderStore":
        """Give the writer that checks `fence` in each transaction."""
        return SqlLeaderStore(self._calls, fence)

    def lease_store(self) -> SqlLeaseStore:
        """Give the lease row, on a new connection and thread of its own; its user closes it."""
        calls = Calls(self._backend, threads=1, deadline_s=self._deadline_s, observe=self._observe)
        return SqlLeaseStore(calls, proves_old_holder_dead=self._backend.proves_old_holder_dead)

    async def close(self) -> None:
        """Close all connections but those of lease stores, and let others use the database."""
        await asyncio.to_thread(self._calls.close)
        self._backend.close()


class SqlLeaderStore:
    """The leader's writer."""

    def __init__(self, calls: Calls, fence: Fence) -> None:
        self._calls = calls
        self._fence = fence

    async def apply(self, writes: Sequence[Write]) -> None:
        """Carry out all writes in one transaction, or none. Raises `Fenced` or `StoreUnavailable`."""

        def work(connection: Connection) -> None:
            statements.check_fence(connection, self._fence)
            statements.carry_out(connection, writes)

        everything = any(isinstance(write, ReplaceAll) for write in writes)
        await self._calls.run("apply", work, write=True, deadline_s=WHOLE_S if everything else None)


def _backend(url: str, password: str | None) -> Backend:
    scheme, separator, _ = url.partition("://")
    if separator and scheme in {"postgresql", "postgres"}:
        return _postgresql(url, password)
    try:
        parsed = make_url(url)
    except ArgumentError:
        # The text itself is not repeated: it may hold a password.
        raise InvalidInput("store_url is not a database URL", hint=_HINT, field="store_url") from None
    if parsed.get_backend_name() == "sqlite":
        return SqliteBackend(parsed)
    raise InvalidInput(
        f"store_url names {parsed.drivername}, which this release does not know",
        hint=_HINT,
        field="store_url",
        allowed=("sqlite", "postgresql"),
    )


def _postgresql(url: str, password: str | None) -> Backend:
    try:
        # Here, not above: the driver is an extra that those who use SQLite need not have.
        from llmgw.store.postgresql import PostgresqlBackend
    except ImportError as error:
        raise InvalidInput(
            f"store_url names PostgreSQL, whose driver psycopg cannot be used here: {error}",
            hint="pip install 'llmgw[postgres]'",
            field="store_url",
        ) from error
    return PostgresqlBackend(url, password)


_HINT = "write sqlite:////absolute/path/llmgw.db or postgresql://user@host:5432/database"
