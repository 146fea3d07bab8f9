"""SQLite: all that is special about it. WAL, `BEGIN IMMEDIATE` for writes, and one process per database file."""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import psutil
from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event

from llmgw.config import disk
from llmgw.schema.errors import Conflict, InvalidInput, StoreUnavailable
from llmgw.schema.store import PostgresWord

_NETWORK_FILESYSTEMS = frozenset(
    {
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.ceph",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "pvfs2",
        "smb2",
        "smb3",
        "smbfs",
    }
)
"""Where WAL's shared memory or file locks do not hold between machines (sqlite.org/wal.html, "Disadvantages")."""

_BEGIN = "sqlite_begin"

_WRITE_ERRORS = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_TRUNCATE,
        sqlite3.SQLITE_IOERR_SHMOPEN,
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_IOERR_SHMMAP,
    }
)
"""What SQLite calls a write that failed, whatever the reason (sqlite.org/rescode.html)."""

_CHECK_EVERY = 10_000
"""Steps of SQLite's machine between two looks at whether a call was given up: well below a millisecond."""


class Mount(Protocol):
    """A mounted filesystem, as `psutil.disk_partitions` tells it."""

    @property
    def mountpoint(self) -> str:
        """Where it is mounted."""

    @property
    def fstype(self) -> str:
        """Its type, as the kernel names it."""


class SqliteBackend:
    """A database file. The process that claims it holds an exclusive lock on `FILE.lock` until it ends."""

    hint = "nothing more is needed if this heals by itself; else look at the disk, and at who else uses the file"
    read_options: Mapping[str, Any] = {_BEGIN: "DEFERRED"}
    write_options: Mapping[str, Any] = {_BEGIN: "IMMEDIATE"}

    def __init__(self, url: URL) -> None:
        if not url.database or url.database == ":memory:":
            raise InvalidInput(
                "store_url names no file",
                hint="write sqlite:////absolute/path/llmgw.db",
                field="store_url",
            )
        self._path = Path(url.database).absolute()
        self._lock: int | None = None

    @property
    def where(self) -> str:
        """The database in words."""
        return f"store {self._path}"

    @property
    def disk(self) -> str:
        """The disk, in words."""
        return f"on the disk of {self._path.parent}"

    def claim(self) -> None:
        """Refuse network filesystems, lock, and create the file readable by its owner only: it holds engine keys."""
        refuse_network_filesystem(self._path, psutil.disk_partitions(all=True))
        try:
            self._lock = _lock(self._path.with_name(self._path.name + ".lock"), self.where)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            self.close()
            raise StoreUnavailable(
                f"{self.where} cannot be opened: {error.strerror}",
                hint=f"make the folder {self._path.parent} and let this user write to it",
            ) from error

    def engine(self, *, connections: int, deadline_s: float) -> Engine:
        """Give an engine; a connection waits for another one's lock no longer than the deadline."""
        engine = create_engine(
            URL.create("sqlite", database=str(self._path)),
            poolclass=QueuePool,
            pool_size=connections,
            max_overflow=0,
            pool_timeout=deadline_s,
            hide_parameters=True,
            connect_args={"factory": _Connection},
        )
        busy_ms = max(1, int(deadline_s * 1000))

        def prepare(connection: _Connection, _record: object) -> None:
            connection.isolation_level = None  # we say BEGIN ourselves; the driver would say it too late
            connection.execute(f"PRAGMA busy_timeout = {busy_ms}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # an epoch handed out must outlive a power cut
            connection.set_progress_handler(lambda: connection.given_up, _CHECK_EVERY)

        event.listen(engine, "connect", prepare)
        event.listen(engine, "begin", _begin)
        return engine

    def cut(self, connection: Any) -> None:
        """End the statement that runs, and any later one. A wait for a lock goes on: it ends with the busy timeout."""
        connection.given_up = True
        connection.interrupt()

    def is_full(self, error: BaseException) -> bool:
        """True when SQLite says so, or failed to write where there is no room: its shared memory grows by files."""
        if not isinstance(error, sqlite3.Error):
            return False
        code = getattr(error, "sqlite_errorcode", None)
        return code == sqlite3.SQLITE_FULL or (code in _WRITE_ERRORS and disk.is_full(self._path.parent))

    def lock_schema(self, connection: Connection) -> None:
        """Nothing: a claimed file is ours alone."""

    def proves_old_holder_dead(self) -> bool:
        """True once claimed: whoever held the lease before must have lost the file lock, and only death does that."""
        return self._lock is not None

    def words(
        self, _asked: Iterable[tuple[str, str]], *, deadline_s: float
    ) -> dict[tuple[str, str], PostgresWord | None]:
        """Nothing: there is no server."""
        del deadline_s
        return {}

    def close(self) -> None:
        """Let go of the file lock."""
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None


class _Connection(sqlite3.Connection):
    """A connection that can be given up from another thread: `interrupt` alone misses a statement about to begin."""

    given_up = False


def refuse_network_filesystem(path: Path, mounts: Sequence[Mount]) -> None:
    """Raise `InvalidInput` when `path` lies on a filesystem shared between machines."""
    real = path.resolve()
    holding = [mount for mount in mounts if real.is_relative_to(mount.mountpoint)]
    if not holding:
        return
    # Of mounts over one another at the same place the last one counts.
    mount = max(reversed(holding), key=lambda mount: len(mount.mountpoint))
    if mount.fstype in _NETWORK_FILESYSTEMS:
        raise InvalidInput(
            f"store {path} lies on {mount.mountpoint}, a network filesystem ({mount.fstype}),"
            " where SQLite's locks do not hold",
            hint="keep the data folder on a local disk, or use PostgreSQL",
            field="store_url",
        )


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get(_BEGIN, 'IMMEDIATE')}")


def _lock(path: Path, where: str) -> int:
    # Not inherited by programs we start (Python's default): an engine that lives on must not hold it.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise Conflict(
            f"{where} is in use by another control plane" + (f" (process {owner})" if owner else ""),
            hint="SQLite serves one control plane: stop the other one, or use PostgreSQL for several",
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
