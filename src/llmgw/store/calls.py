"""Calls to a database on a small thread pool, each with a deadline.

A call that exceeds it is given up: its connection is cut and never used again, its caller gets `StoreUnavailable`.
A call cut short may have taken effect or not; what protects against the former is the fence, not this file.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolExhausted

from llmgw.schema.errors import StoreError, StoreUnavailable
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
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="store")

    async def run(self, name: str, work: Work[T], *, write: bool) -> T:
        """Run `work` in a transaction of its own. Raises `StoreUnavailable`, or what `work` raises."""
        attempt = _Attempt(self._backend)
        with _Observed(name, self._observe):
            future = self._submit(attempt, work, write=write)
            try:
                async with asyncio.timeout(self._deadline_s):
                    return await asyncio.wrap_future(future)
            except TimeoutError as error:
                raise self._too_late(name) from error
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
                raise self._too_late(name) from error
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

    def _transact(self, attempt: "_Attempt", work: Work[T], *, write: bool) -> T:
        options = self._backend.write_options if write else self._backend.read_options
        try:
            with self._engine.connect() as raw:
                connection = raw.execution_options(**options)
                try:
                    attempt.begin(connection)
                    with connection.begin():
                        result = work(connection)
                        attempt.check()
                    return result
                finally:
                    attempt.end(connection)
        except (IntegrityError, ProgrammingError):
            raise  # a mistake of ours, not a store that is away
        except DBAPIError as error:
            # The driver's text only: SQLAlchemy's holds the statement.
            raise StoreUnavailable(f"{self._backend.where}: {error.orig}", hint=_HINT) from error
        except PoolExhausted as error:
            raise self._too_late("connecting") from error

    def _too_late(self, name: str) -> StoreUnavailable:
        return StoreUnavailable(f"{self._backend.where}: no answer to {name} within {self._deadline_s:g} s", hint=_HINT)


_HINT = "nothing more is needed if this heals by itself; else look at the disk, and at who else uses the database"


class _Attempt:
    """One call, known to the thread that carries it out and to the caller that may give it up."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = Lock()
        self._driver_connection: Any = None
        self._given_up = False

    def begin(self, connection: Connection) -> None:
        """Note the connection in use. Raises `StoreUnavailable` when the call was given up already."""
        self.check()
        with self._lock:
            self._driver_connection = connection.connection.driver_connection

    def check(self) -> None:
        """Raise `StoreUnavailable` when the call was given up."""
        if self._given_up:
            raise StoreUnavailable("the call was given up")

    def cut(self) -> None:
        """Give the call up; no-op when it has ended."""
        with self._lock:
            self._given_up = True
            if self._driver_connection is not None:
                self._backend.cut(self._driver_connection)

    def end(self, connection: Connection) -> None:
        """Let go of the connection before the pool has it back; it is dropped if it was cut."""
        with self._lock:
            in_use, self._driver_connection = self._driver_connection, None
            cut = in_use is not None and self._given_up
        if cut:
            connection.invalidate()


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
