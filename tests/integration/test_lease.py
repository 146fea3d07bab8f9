"""The lease with real threads, a real database file and a real kill."""

import asyncio
import sqlite3
import sys
import threading
import time

import pytest

from llmgw.core.lease import Candidate, Numbers
from llmgw.ports import PutSetting
from llmgw.schema.errors import Fenced
from llmgw.schema.lease import Fence, Standing
from llmgw.server.lease import LeaseThread
from llmgw.store.sql import open_store
from llmgw.telemetry.clock import SystemClock

PATIENCE_S = 30.0
QUICK = Numbers(ttl_s=1.5, renew_s=0.3, margin_s=0.3, poll_s=0.1, jitter_s=0.05)


def candidate(name):
    return Candidate(holder=f"holder-{name}", name=name, address="127.0.0.1:1")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "llmgw.db"


@pytest.fixture
async def store(path):
    store = open_store(f"sqlite:///{path}")
    yield store
    await store.close()


async def becomes(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never became true"
        await asyncio.sleep(0.02)


async def test_a_thread_leads_writes_through_its_fence_and_ends_when_told(store):
    thread = LeaseThread(store.lease_store(), SystemClock(), candidate("a"), numbers=QUICK)
    changed = threading.Event()
    thread.on_change(changed.set)
    thread.start()
    await becomes(thread.is_leader)
    assert changed.is_set()

    await store.leader(thread.fence()).apply([PutSetting(name="a", value="1")])
    fence = thread.fence()
    thread.raise_epoch(7)
    await becomes(lambda: thread.status().epoch == 7)
    assert thread.is_leader()
    with pytest.raises(Fenced):
        await store.leader(fence).apply([])

    thread.release_and_stop()
    assert thread.status().standing == Standing.STOPPED
    assert not any(running.name == "lease" for running in threading.enumerate())
    lease = store.lease_store()
    assert lease.read().released
    lease.close()


async def test_stopping_is_quick_although_the_next_renewal_is_far(store):
    thread = LeaseThread(store.lease_store(), SystemClock(), candidate("a"), numbers=Numbers(ttl_s=600, renew_s=300))
    thread.start()
    await becomes(thread.is_leader)
    started = time.monotonic()
    thread.release_and_stop()
    assert time.monotonic() - started < 3.0
    assert not any(running.name == "lease" for running in threading.enumerate())


async def test_a_thread_that_never_started_can_be_stopped(store):
    thread = LeaseThread(store.lease_store(), SystemClock(), candidate("a"))
    thread.release_and_stop()
    assert not thread.is_leader()


async def test_after_a_kill_the_next_process_leads_at_once_with_the_next_epoch(path):
    """The file lock proves the old holder dead: nobody waits for the TTL, ten minutes here."""
    script = f"""
import time
from llmgw.core.lease import Candidate, Numbers
from llmgw.server.lease import LeaseThread
from llmgw.store.sql import open_store
from llmgw.telemetry import log
from llmgw.telemetry.clock import SystemClock
log.configure(level="info", style="json", process="first")
store = open_store({f"sqlite:///{path}"!r})
me = Candidate(holder="first", name="first", address="")
thread = LeaseThread(store.lease_store(), SystemClock(), me, numbers=Numbers(ttl_s=600, renew_s=1))
thread.start()
while not thread.is_leader():
    time.sleep(0.01)
print("leads", flush=True)
time.sleep(60)
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert await process.stdout.readline() == b"leads\n"
    process.kill()
    await process.communicate()

    store = open_store(f"sqlite:///{path}")
    thread = LeaseThread(
        store.lease_store(), SystemClock(), candidate("second"), numbers=Numbers(ttl_s=600, renew_s=300)
    )
    thread.start()
    await becomes(thread.is_leader)
    assert thread.fence() == Fence(epoch=2, holder="holder-second")
    thread.release_and_stop()
    await store.close()


async def test_a_store_locked_by_another_program_lapses_the_lease_and_it_comes_back_with_the_same_epoch(store, path):
    thread = LeaseThread(store.lease_store(), SystemClock(), candidate("a"), numbers=QUICK)
    thread.start()
    await becomes(thread.is_leader)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    await becomes(lambda: thread.status().standing == Standing.LAPSED)
    assert thread.fence() is None
    other.execute("ROLLBACK")
    other.close()
    await becomes(thread.is_leader)
    assert thread.fence() == Fence(epoch=1, holder="holder-a")
    thread.release_and_stop()
