"""PostgreSQL through psycopg 3: all that is special about it. Needs the extra `postgres`.

A server that is frozen, or whose machine is gone, keeps a connection open and says nothing; `statement_timeout` helps
neither there nor in a commit that waits for a replica. So each call's deadline is the client's own: `cut` shuts the
socket down from outside, whatever thread waits on it, and that connection is never used again.
"""

import contextlib
import difflib
import os
import select
import socket
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import DiskFull, ReadOnlySqlTransaction
from sqlalchemy import URL, Connection, Engine, ExceptionContext, QueuePool, create_engine, event, text
from sqlalchemy.exc import DisconnectionError

from llmgw.core.primary import primary
from llmgw.schema.errors import InvalidInput
from llmgw.schema.store import PostgresWord
from llmgw.store.postgresql_word import Place, places, postgres_words

CONNECT_S = 2
"""Of each address tried, in whole seconds; the least libpq knows (postgresql.org/docs/15/libpq-connect.html)."""

PRIMARY_S = 0.5
"""How long hosts are waited for to say which of them is the primary: one that is gone must not use up a call's time."""

_GRACE_S = 1.0
"""How much later than the client the server gives up: then nobody waits for what would still be done there."""

_DEFAULTS: Mapping[str, Any] = {
    "application_name": "llmgw",
    "client_encoding": "utf8",
    # Calls have deadlines; these find connections dead that lie idle: after 5 + 3 x 2 s.
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 11_000,
}

_PREPARE = """
SELECT set_config('statement_timeout', %(wait_ms)s, false),
       set_config('idle_in_transaction_session_timeout', %(wait_ms)s, false),
       set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
                  THEN 'on' ELSE current_setting('synchronous_commit') END, false)
"""
"""A control plane that is frozen within a transaction holds the lease row: the server must end that, or nobody could
take over. And an epoch handed out must outlive a power cut, and a failover to a synchronous replica."""

_MIGRATIONS = 0x6C6C6D6777
"""Key of the advisory lock around migrations: `llmgw` in ASCII."""

_HINT = "write postgresql://USER@HOST:PORT/DATABASE, the password in LLMGW_STORE_PASSWORD or a passfile"


class PostgresqlBackend:
    """A database on a PostgreSQL server, shared by all control planes."""

    hint = "nothing more is needed if this heals by itself; else look at the database server and the way to it"
    read_options: Mapping[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    write_options: Mapping[str, Any] = {"isolation_level": "READ COMMITTED", "postgresql_readonly": False}

    def __init__(self, url: str, password: str | None = None) -> None:
        """`url` is one of libpq's; `password` is used if it names none. Raises `InvalidInput` naming no part of it."""
        self._parameters = {**_DEFAULTS, **_parse(url), "connect_timeout": CONNECT_S}
        if password and not self._parameters.get("password"):
            self._parameters["password"] = password

    @property
    def where(self) -> str:
        """The database in words."""
        named = self._parameters
        host = str(named.get("host") or named.get("hostaddr") or "the local socket")
        ports = sorted(set(str(named.get("port") or "").split(",")) - {""})
        port = f" port {' or '.join(ports)}" if ports else ""
        hosts = " or ".join(host.split(","))
        return f"store {named.get('dbname') or named.get('user') or '(default)'} on {hosts}{port}"

    @property
    def disk(self) -> str:
        """The disk, in words."""
        return "on the disk of the database server"

    def claim(self) -> None:
        """Nothing: the lease decides which control plane uses it."""

    def engine(self, *, connections: int, deadline_s: float) -> Engine:
        """Give an engine that reconnects by itself."""
        engine = create_engine(
            URL.create("postgresql+psycopg"),
            creator=self._connect,
            poolclass=QueuePool,
            pool_size=connections,
            max_overflow=0,
            pool_timeout=deadline_s,
            hide_parameters=True,
            use_native_hstore=False,
        )
        wait_ms = str(round((deadline_s + _GRACE_S) * 1000))

        def prepare(connection: _Connection, _record: object) -> None:
            connection.execute(_PREPARE, {"wait_ms": wait_ms})
            connection.commit()

        event.listen(engine, "connect", prepare)
        outages = _Outages()
        event.listen(engine, "connect", outages.connected)
        event.listen(engine, "checkout", outages.refuse_older)
        event.listen(engine, "checkout", _refuse_closed)
        event.listen(engine, "handle_error", outages.happened)
        return engine

    def cut(self, connection: Any) -> None:
        """Shut the connection's socket down: whoever waits on it sees it end."""
        connection.cut()

    def is_full(self, error: BaseException) -> bool:
        """True when the server says so (SQLSTATE 53100)."""
        return isinstance(error, DiskFull)

    def lock_schema(self, connection: Connection) -> None:
        """Wait until no other control plane migrates, and keep others waiting until the transaction ends."""
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATIONS})

    def proves_old_holder_dead(self) -> bool:
        """False: another control plane may well live."""
        return False

    def close(self) -> None:
        """Nothing."""

    def words(self, asked: Iterable[Place], *, deadline_s: float) -> dict[Place, PostgresWord | None]:
        """Ask servers, by host and port, what they are; `None` for those that do not answer. Blocks."""
        return postgres_words(self._parameters, asked, deadline_s=deadline_s)

    def _connect(self) -> "_Connection":
        # Statements are not prepared on the server: that fails behind poolers, and these are few and small.
        return _Connection.connect(**(self._parameters | self._primary()), prepare_threshold=None)

    def _primary(self) -> dict[str, str]:
        """Choose among several hosts: libpq would take the first that accepts writes, which may be a stale primary."""
        hosts = places(self._parameters)
        if len(hosts) == 1:
            return {}
        found = primary(self.words(hosts, deadline_s=PRIMARY_S))
        if found is None:
            raise psycopg.OperationalError("none of the hosts that answer is a primary")
        return {"host": found[0], "port": found[1]}


class _Connection(psycopg.Connection[Any]):
    """A connection that can be cut from another thread.

    It holds a second descriptor of its socket: libpq may close its own at any time, and the number could then be that
    of somebody else's file.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._cutting = Lock()
        self._socket = socket.socket(fileno=os.dup(self.fileno()))
        self.fresh = True
        self.outage = 0
        """How many outages its engine had seen when it was made."""

    def cut(self) -> None:
        """End what the connection is doing. It is not usable afterwards."""
        with self._cutting, contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def was_closed(self) -> bool:
        """True when the server said something unasked: it ended the session, or is about to."""
        # Not `select`: it refuses descriptors above 1023, which a leader of a thousand agents has.
        asked = select.poll()
        asked.register(self._socket, select.POLLIN)
        return bool(asked.poll(0))

    def close(self) -> None:
        """Close both descriptors."""
        super().close()
        with self._cutting:
            self._socket.close()


def _refuse_closed(connection: _Connection, _record: object, _proxy: object) -> None:
    """Have the pool replace a connection that ended while it lay idle, so that a restart costs no call."""
    if not connection.fresh and connection.was_closed():
        raise DisconnectionError("the server closed it")
    connection.fresh = False


class _Outages:
    """Once one connection ended, no older one of the same engine is used.

    The pool's own way to do that compares times of the wall clock: set back by an hour, it would have every call
    connect anew for an hour.
    """

    def __init__(self) -> None:
        self._count = 0

    def connected(self, connection: _Connection, _record: object) -> None:
        """Note a new connection."""
        connection.outage = self._count

    def refuse_older(self, connection: _Connection, _record: object, _proxy: object) -> None:
        """Have the pool replace a connection that is older than the last outage."""
        if connection.outage != self._count:
            raise DisconnectionError("another one ended since it was made")

    def happened(self, context: ExceptionContext) -> None:
        """Count an outage, once for all connections it ended; a former primary that refuses to write is one too."""
        if isinstance(context.original_exception, ReadOnlySqlTransaction):
            context.is_disconnect = True
        if not context.is_disconnect or context.connection is None or context.connection.invalidated:
            return
        context.invalidate_pool_on_disconnect = False
        held = context.connection.connection.driver_connection
        if isinstance(held, _Connection) and held.outage == self._count:
            self._count += 1


def _parse(url: str) -> dict[str, Any]:
    # Neither the URL nor the driver's words on it are repeated: they may hold a password.
    try:
        parameters = dict(conninfo_to_dict(url))
    except psycopg.Error:
        near = _near_parameter(url)
        raise _refusal(f"; did you mean the parameter {near!r}?" if near else "") from None
    ports = str(parameters.get("port", "")).split(",")
    # What a password with these characters unescaped leaves in the wrong place.
    if any("@" in str(parameters.get(name, "")) for name in ("host", "dbname")) or not all(map(_is_port, ports)):
        raise _refusal("")
    return parameters


def _is_port(port: str) -> bool:
    return not port or port.isdecimal()


def _near_parameter(url: str) -> str | None:
    known = [option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()]
    asked = [name for name, _ in parse_qsl(url.rpartition("?")[2]) if name not in known]
    near = [found for name in asked for found in difflib.get_close_matches(name, known, n=1)]
    return near[0] if near else None


def _refusal(more: str) -> InvalidInput:
    return InvalidInput(
        f"store_url is not a PostgreSQL URL{more}",
        hint=f"{_HINT}; special characters in the URL must be percent-encoded",
        field="store_url",
    )
