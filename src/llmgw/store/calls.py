"""Calls to a database on a small thread pool, each with a deadline.

A call that exceeds it is given up: its connection is cut and never used again, its caller gets `StoreUnavailable`.
A call cut short may have taken effect or not; what protects against the former is the fence, not this file.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock, Timer, local
from typing import Any, TypeVar

from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolExhausted

from llmgw.schema.errors import StoreError, StoreFull, StoreUnavailable
from llmgw.store.backend import Backend, Observe

T = TypeVar("T")
Work = Callable[[Connection], T]


class Calls:
    """An engine, `threads` threads with a connection each, and the deadline."""

    def __init__(self, backend: Backend, *, threads: int, deadline_s: float, observe: Observe | None) -> None:
        self._backend = backend
        self._deadline_s = deadline_s
        self._observe = observe
        self._engine = backend.engine(connections=threads, deadline_s=deadline_s)
        self._here = local()
        # First of all that is done with a new connection: what follows may already have to be cut.
        event.listen(self._engine, "connect", self._opened, insert=True)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="store")

    async def run(self, name: str, work: Work[T], *, write: bool, deadline_s: float | None = None) -> T:
        """Run `work` in a transaction of its own, with its own deadline if it has one.

        Raises `StoreUnavailable`, or what `work` raises.
        """
        deadline_s = deadline_s or self._deadline_s
        attempt = _Attempt(self._backend)
        with _Observed(name, self._observe):
            future = self._submit(attempt, work, write=write)
            try:
                async with asyncio.timeout(deadline_s):
                    return await asyncio.wrap_future(future)
            except TimeoutError as error:
                raise self._too_late(name, deadline_s) from error
            finally:
                attempt.cut()

    def wait_for(self, name: str, work: Work[T], *, write: bool) -> T:
        """Do as `run` does, blocking the calling thread."""
        attempt = _Attempt(self._backend)
        with _Observed(name, self._observe):
            future = self._submit(attempt, work, write=write)
            try:
                return future.result(timeout=self._deadline_s)
            except TimeoutError as error:
                raise self._too_late(name, self._deadline_s) from error
            finally:
                future.cancel()
                attempt.cut()

    def close(self) -> None:
        """Let the calls that run end, drop those that wait, close all connections. May block for the deadline."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._engine.dispose()

    def _submit(self, attempt: "_Attempt", work: Work[T], *, write: bool) -> Future[T]:
        try:
            return self._pool.submit(self._transact, attempt, work, write=write)
        except RuntimeError as error:
            raise StoreUnavailable(f"{self._backend.where} was closed") from error

    def _opened(self, driver_connection: Any, _record: object) -> None:
        attempt: _Attempt = self._here.attempt
        attempt.open(driver_connection, within_s=self._deadline_s)

    def _transact(self, attempt: "_Attempt", work: Work[T], *, write: bool) -> T:
        options = self._backend.write_options if write else self._backend.read_options
        self._here.attempt = attempt
        try:
            attempt.check()
            with self._connect(attempt) as raw:
                connection = raw.execution_options(**options)
                try:
                    attempt.use(connection.connection.driver_connection)
                    with connection.begin():
                        result = work(connection)
                        attempt.check()
                    return result
                finally:
                    attempt.end(connection)
        except IntegrityError:
            raise  # a mistake of ours, not a store that is away
        except ProgrammingError as error:
            raise StoreError(f"{self._backend.where}: {_words(error)}", hint=_SCHEMA_HINT) from error
        except DBAPIError as error:
            if error.orig is not None and self._backend.is_full(error.orig):
                raise self._full(error) from error
            raise StoreUnavailable(f"{self._backend.where}: {_words(error)}", hint=self._backend.hint) from error
        except PoolExhausted as error:
            raise self._too_late("connecting", self._deadline_s) from error

    def _connect(self, attempt: "_Attempt") -> Connection:
        try:
            return self._engine.connect()
        except BaseException:
            attempt.abandon()
            raise

    def _full(self, error: DBAPIError) -> StoreFull:
        """Say it in words: a full disk is the one trouble that never heals by itself, and always by making room."""
        return StoreFull(
            f"the store's disk is full: nothing can be written to {self._backend.where} ({_words(error)})",
            hint=f"make room {self._backend.disk}: all goes on by itself then; until then models go on being served",
        )

    def _too_late(self, name: str, deadline_s: float) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._backend.where}: no answer to {name} within {deadline_s:g} s", hint=self._backend.hint
        )


_SCHEMA_HINT = "see that its user may read and write all tables of this release's schema"


def _words(error: DBAPIError) -> str:
    """Give the driver's first line: SQLAlchemy's own text, and further lines, hold the statement and its values."""
    return str(error.orig).partition("\n")[0]


class _Attempt:
    """One call, known to the thread that carries it out and to the caller that may give it up."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = Lock()
        self._driver_connection: Any = None
        self._given_up = False
        self._was_cut = False
        self._late: Timer | None = None

    def open(self, driver_connection: Any, *, within_s: float) -> None:
        """Note a new connection that is about to be made ready.

        One that comes too late for its call has a deadline of its own, and is kept for the next call: otherwise none
        would ever come about where connecting takes longer than a call may.
        """
        with self._lock:
            self._driver_connection = driver_connection
            if self._given_up:
                self._late = Timer(within_s, self.cut)
                self._late.daemon = True
                self._late.start()

    def use(self, driver_connection: Any) -> None:
        """Note the connection in use. Raises `StoreUnavailable` when the call was given up already."""
        with self._lock:
            self._settle()
            if not self._given_up:
                self._driver_connection = driver_connection
        self.check()

    def check(self) -> None:
        """Raise `StoreUnavailable` when the call was given up."""
        if self._given_up:
            raise StoreUnavailable("the call was given up")

    def cut(self) -> None:
        """Give the call up; no-op when it has ended."""
        with self._lock:
            self._given_up = True
            if self._driver_connection is not None:
                self._was_cut = True
                self._backend.cut(self._driver_connection)

    def end(self, connection: Connection) -> None:
        """Let go of the connection before the pool has it back; it is dropped if it was cut."""
        with self._lock:
            self._settle()
        if self._was_cut:
            connection.invalidate()

    def abandon(self) -> None:
        """Close a new connection that could not be made ready."""
        with self._lock:
            unready = self._settle()
        if unready is not None:
            unready.close()

    def _settle(self) -> Any:
        if self._late is not None:
            self._late.cancel()
        held, self._driver_connection = self._driver_connection, None
        return held


class _Observed:
    """Times a call and tells of it."""

    def __init__(self, name: str, observe: Observe | None) -> None:
        self._name = name
        self._observe = observe
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self._observe is None:
            return
        code = error.code if isinstance(error, StoreError) else None
        self._observe(self._name, time.perf_counter() - self._started, code)
