"""Stores under contract. A new database joins by one more entry of `STORES`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from llmgw.schema.lease import Fence, LeaseRow
from llmgw.store.memory import MemoryStore
from llmgw.store.sql import SqlStore, open_store
from llmgw.testing.clock import FakeClock

Observed = list[tuple[str, float, str | None]]
AnyStore = MemoryStore | SqlStore


def _memory(_folder: Path, observed: Observed) -> AnyStore:
    return MemoryStore(FakeClock(), observe=lambda *call: observed.append(call))


def _sqlite(folder: Path, observed: Observed) -> AnyStore:
    # A generous deadline: only the tests of deadlines should meet one on a busy machine.
    return open_store(f"sqlite:///{folder}/llmgw.db", deadline_s=20.0, observe=lambda *call: observed.append(call))


STORES: dict[str, Callable[[Path, Observed], AnyStore]] = {"memory": _memory, "sqlite": _sqlite}


@pytest.fixture
def observed() -> Observed:
    return []


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path, observed: Observed) -> AsyncIterator[AnyStore]:
    store = STORES[request.param](tmp_path, observed)
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
