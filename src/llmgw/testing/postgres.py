"""A real PostgreSQL server of a test's own: Debian's package, an unprivileged user, a folder in the temporary one."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

USER = "llmgw"
PASSWORD = "pass:word/@?%"  # noqa: S105 - of a database that lives as long as a test; hard to quote on purpose

START_S = 60.0
"""Generous: a busy machine recovers a crashed server slowly."""

_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "100",
    "log_min_messages": "warning",
}


def installed() -> Path | None:
    """Give the folder with the server's programs; `None` when there are none."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    if on_path:
        found.append(Path(on_path).resolve().parent)
    return max(found, key=lambda path: float(path.parent.name) if path.parent.name.isdecimal() else 0.0, default=None)


class PostgresServer:
    """A server on a free loopback port and on a Unix socket in `folder`, with password authentication.

    Use as a context: started at its beginning, ended and removed at its end.
    """

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        # Not below pytest's folder: that is for its own user only, and the server refuses to run as root.
        self.folder = Path(tempfile.mkdtemp(prefix="llmgw-postgres-"))
        self.port = _free_port()

    def __enter__(self) -> Self:
        try:
            self._make()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    # Its life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {**_SETTINGS, "port": str(self.port), "unix_socket_directories": str(self.folder)}
        argv = [str(self._binaries / "postgres"), "-D", str(self._data)]
        for name, value in settings.items():
            argv += ["-c", f"{name}={value}"]
        with self.log.open("ab") as log:
            self._process = self._spawn(argv, log.fileno())
        guard = [sys.executable, "-m", "llmgw.testing.postgres", str(self._process.pid), str(self.folder)]
        self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)
        self._wait()

    def stop(self) -> None:
        """End it in order: sessions are closed, nothing is lost. No-op when it does not run."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """End it at once, like a power cut of the server: the next start recovers from the log."""
        self._end(signal.SIGQUIT)

    def freeze(self) -> None:
        """Stop the server and all its sessions in their tracks: connections stay open, nothing answers."""
        parent = psutil.Process(self.pid)
        parent.suspend()  # first: it must not make new ones meanwhile
        for child in parent.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.suspend()

    def thaw(self) -> None:
        """Let it go on."""
        _resume(psutil.Process(self.pid))

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze it for a while."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    @property
    def pid(self) -> int:
        """Process id of its first process."""
        if self._process is None:
            raise RuntimeError("the server does not run")
        return self._process.pid

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.folder / "log"

    # Its databases -------------------------------------------------------------------------------

    def new_database(self, name: str) -> str:
        """Make an empty database, and give its URL with the password."""
        with self.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Remove a database, whoever uses it."""
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def url(self, database: str, *, password: str | None = PASSWORD) -> str:
        """Give a database's URL."""
        secret = "" if password is None else f":{quote(password, safe='')}"
        return f"postgresql://{USER}{secret}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        """Give a connection as the superuser; each statement is a transaction of its own."""
        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=10)

    # ---------------------------------------------------------------------------------------------

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _make(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        self.log.touch()
        account = _account()
        if account is not None:
            for path in (self.folder, secret, self.log):
                os.chown(path, account.pw_uid, account.pw_gid)
        argv = [str(self._binaries / "initdb"), "--pgdata", str(self._data), "--username", USER, "--no-sync"]
        argv += ["--auth", "scram-sha-256", "--pwfile", str(secret), "--encoding", "UTF8", "--locale", "C.UTF-8"]
        with self.log.open("ab") as log:
            status = self._spawn(argv, log.fileno()).wait(START_S)
        if status != 0:
            raise RuntimeError(f"initdb ended with {status}: {self.log.read_text()}")

    def _spawn(self, argv: list[str], output: int) -> subprocess.Popen[bytes]:
        account = _account()
        user, group = (None, None) if account is None else (account.pw_uid, account.pw_gid)
        groups: list[int] | None = None if account is None else []
        # A session of its own: an interrupt of the tests is for them to handle.
        return subprocess.Popen(
            argv,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            user=user,
            group=group,
            extra_groups=groups,
            start_new_session=True,
        )

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError as error:
                ended = self._process is None or self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    raise RuntimeError(f"the server does not answer: {error}\n{self.log.read_text()}") from error
                time.sleep(0.05)
            else:
                return

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self.thaw()
            self._process.send_signal(number)
            self._process.wait(START_S)
        self._process = None
        if self._guard is not None:
            self._guard.communicate(b"it has ended")
        self._guard = None


def _resume(server: psutil.Process) -> None:
    for process in (*server.children(recursive=True), server):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
            process.resume()


def _guard(pid: int, folder: Path) -> None:
    """Run as a process of its own: end a server whose tests were killed, and so said nothing before their end."""
    if sys.stdin.read():
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        server = psutil.Process(pid)
        _resume(server)
        server.send_signal(signal.SIGQUIT)
        server.wait(START_S)
    shutil.rmtree(folder, ignore_errors=True)


def _account() -> pwd.struct_passwd | None:
    """Whom the server runs as: it refuses root. `None`: the user of the tests."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("the server refuses to run as root, and there is neither a user `postgres` nor `nobody`")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    _guard(int(sys.argv[1]), Path(sys.argv[2]))
