"""Stores under contract. A new database joins by one more entry of `STORES`."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from llmgw.schema.lease import Fence, LeaseRow
from llmgw.store.memory import MemoryStore
from llmgw.store.sql import SqlStore, open_store
from llmgw.testing.clock import FakeClock
from llmgw.testing.postgres import PostgresServer, installed

Observed = list[tuple[str, float, str | None]]
AnyStore = MemoryStore | SqlStore


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real server for all tests; each takes a database of its own."""
    binaries = installed()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with PostgresServer(binaries) as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"test_{uuid.uuid4().hex}"
    yield postgres.new_database(name)
    postgres.drop_database(name)


def _memory(_: pytest.FixtureRequest, observed: Observed) -> AnyStore:
    return MemoryStore(FakeClock(), observe=lambda *call: observed.append(call))


def _sqlite(request: pytest.FixtureRequest, observed: Observed) -> AnyStore:
    return _open(f"sqlite:///{request.getfixturevalue('tmp_path')}/llmgw.db", observed)


def _postgresql(request: pytest.FixtureRequest, observed: Observed) -> AnyStore:
    return _open(request.getfixturevalue("database"), observed)


def _open(url: str, observed: Observed) -> AnyStore:
    # A generous deadline: only the tests of deadlines should meet one on a busy machine.
    return open_store(url, deadline_s=20.0, observe=lambda *call: observed.append(call))


STORES: dict[str, Callable[[pytest.FixtureRequest, Observed], AnyStore]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgresql": _postgresql,
}


@pytest.fixture
def observed() -> Observed:
    return []


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, observed: Observed) -> AsyncIterator[AnyStore]:
    store = STORES[request.param](request, observed)
    yield store
    await store.close()


@pytest.fixture
async def lead(store: AnyStore) -> AsyncIterator[Callable[[str], Fence]]:
    """Make a holder lead, whoever led before, and give its fence."""
    lease = store.lease_store()

    def take(holder: str) -> Fence:
        seen = lease.read()
        epoch = seen.epoch + 1 if seen else 1
        new = LeaseRow(
            holder=holder,
            epoch=epoch,
            beat=1,
            released=False,
            name=f"control-{holder}",
            address="127.0.0.1:8800",
            renewed_at=FakeClock().now(),
        )
        assert lease.take(seen, new)
        return Fence(epoch=epoch, holder=holder)

    yield take
    await asyncio.to_thread(lease.close)
