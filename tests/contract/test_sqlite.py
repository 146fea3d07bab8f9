"""What is special about SQLite: real locks, deadlines, one process per file, migrations from the package."""

import asyncio
import os
import signal
import sqlite3
import stat
import sys
import time
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from llmgw.ports import FleetRows, PutSetting
from llmgw.schema.errors import Conflict, InvalidInput, StoreError, StoreUnavailable
from llmgw.schema.lease import Fence, LeaseRow
from llmgw.store import tables
from llmgw.store.calls import Calls
from llmgw.store.sql import open_store
from llmgw.testing.clock import FakeClock

DEADLINE_S = 0.3
LATE_S = 5.0
"""Far beyond the deadline, far below "for ever": what a busy machine may add."""

ROW = LeaseRow(
    holder="a", epoch=1, beat=1, released=False, name="c", address="127.0.0.1:1", renewed_at=FakeClock().now()
)
FENCE = Fence(epoch=1, holder="a")

COUNT_FOR_EVER = text(
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n WHERE i < 0"
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "llmgw.db"


@pytest.fixture
async def store(path):
    store = open_store(f"sqlite:///{path}", deadline_s=DEADLINE_S)
    yield store
    await store.close()


@pytest.fixture
def lease(store):
    lease = store.lease_store()
    yield lease
    lease.close()


@pytest.fixture
def locker(path, store):
    """Another program that holds the write lock of the database."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


async def test_a_write_waits_for_a_lock_no_longer_than_the_deadline(store, locker):
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"llmgw\.db"):
        await store.leader(FENCE).apply([])
    assert DEADLINE_S * 0.9 < time.monotonic() - started < LATE_S


async def test_a_lease_call_waits_for_a_lock_no_longer_than_the_deadline(lease, locker):
    started = time.monotonic()
    with pytest.raises(StoreUnavailable):
        lease.take(None, ROW)
    assert DEADLINE_S * 0.9 < time.monotonic() - started < LATE_S


async def test_reads_do_not_wait_for_a_writer(store, lease, locker):
    assert await store.load_fleet() == FleetRows()
    assert lease.read() is None


async def test_all_is_well_again_once_the_lock_is_gone(store, lease, locker):
    for _ in range(6):  # more than there are threads and connections
        with pytest.raises(StoreUnavailable):
            await store.leader(FENCE).apply([])
    with pytest.raises(StoreUnavailable):
        lease.take(None, ROW)
    locker.execute("ROLLBACK")

    assert lease.take(None, ROW)
    await store.leader(FENCE).apply([PutSetting(name="a", value="1")])
    assert await store.load_settings() == {"a": "1"}


async def test_a_write_given_up_while_it_waited_for_the_lock_is_not_made_later(store, lease, locker):
    locker.execute("ROLLBACK")
    lease.take(None, ROW)
    locker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        await store.leader(FENCE).apply([PutSetting(name="late", value="1")])
    locker.execute("ROLLBACK")

    await store.leader(FENCE).apply([PutSetting(name="next", value="1")])
    assert await store.load_settings() == {"next": "1"}


async def test_a_statement_that_runs_too_long_is_interrupted_and_its_connection_is_never_used_again(store):
    used = []

    def work(connection):
        used.append(connection.connection.driver_connection)
        return connection.scalar(COUNT_FOR_EVER)

    def note(connection):
        used.append(connection.connection.driver_connection)

    with closing(Calls(store._backend, threads=1, deadline_s=DEADLINE_S, observe=None)) as calls:
        started = time.monotonic()
        with pytest.raises(StoreUnavailable, match=r"no answer to count within 0\.3 s"):
            await calls.run("count", work, write=False)
        assert time.monotonic() - started < LATE_S
        await _answers(calls, note)

    assert used[0] is not used[-1]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        used[0].execute("SELECT 1")


async def test_a_blocking_call_is_interrupted_the_same_way(store):
    with closing(Calls(store._backend, threads=1, deadline_s=DEADLINE_S, observe=None)) as calls:
        started = time.monotonic()
        with pytest.raises(StoreUnavailable):
            calls.wait_for("count", lambda connection: connection.scalar(COUNT_FOR_EVER), write=False)
        assert time.monotonic() - started < LATE_S
        await _answers(calls, lambda connection: None)


async def test_a_caller_that_goes_away_ends_its_statement(store):
    with closing(Calls(store._backend, threads=1, deadline_s=60.0, observe=None)) as calls:
        running = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work(connection):
            loop.call_soon_threadsafe(running.set)
            return connection.scalar(COUNT_FOR_EVER)

        task = asyncio.create_task(calls.run("count", work, write=False))
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(calls.run("after", lambda connection: None, write=False), LATE_S)


async def test_calls_that_wait_behind_a_stuck_one_keep_their_own_deadline(store):
    with closing(Calls(store._backend, threads=1, deadline_s=DEADLINE_S, observe=None)) as calls:
        done = []
        stuck = calls.run("stuck", lambda connection: time.sleep(3 * DEADLINE_S), write=False)
        behind = calls.run("behind", done.append, write=False)
        started = time.monotonic()
        assert [type(error) for error in await asyncio.gather(stuck, behind, return_exceptions=True)] == [
            StoreUnavailable,
            StoreUnavailable,
        ]
        assert time.monotonic() - started < 2 * DEADLINE_S
        await _answers(calls, lambda connection: None)
    assert done == [], "a call given up before it began must not begin"


async def test_errors_carry_no_values(store, lease):
    lease.take(None, ROW)
    with closing(sqlite3.connect(store._backend._path)) as other:
        other.execute("DROP TABLE settings")
    with pytest.raises(StoreUnavailable) as caught:
        await store.leader(FENCE).apply([PutSetting(name="key", value="top-secret")])
    assert "no such table" in caught.value.message
    assert "top-secret" not in repr(caught.value.__cause__)
    assert "UPDATE" not in caught.value.message


async def test_a_closed_store_says_so(path):
    store = open_store(f"sqlite:///{path}")
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.load_fleet()


async def test_holding_the_file_lock_proves_the_old_holder_dead(store, lease):
    assert lease.proves_old_holder_dead()


async def test_a_second_store_on_the_same_file_is_refused_naming_the_process(store, path):
    with pytest.raises(Conflict, match=rf"process {os.getpid()}\b") as caught:
        open_store(f"sqlite:///{path}")
    assert "stop the other one" in caught.value.hint


async def test_a_closed_store_can_be_opened_again_with_all_it_had(path):
    first = open_store(f"sqlite:///{path}")
    lease = first.lease_store()
    lease.take(None, ROW)
    lease.close()
    await first.leader(FENCE).apply([PutSetting(name="a", value="1")])
    await first.close()

    second = open_store(f"sqlite:///{path}")
    assert await second.load_settings() == {"a": "1"}
    await second.close()


async def test_a_process_killed_while_it_wrote_leaves_neither_lock_nor_half_a_transaction(path):
    script = f"""
import asyncio, sys
from llmgw.ports import PutSetting
from llmgw.schema.lease import Fence
from llmgw.store.sql import open_store
from llmgw.testing.clock import FakeClock
from llmgw.schema.lease import LeaseRow

async def main():
    store = open_store({f"sqlite:///{path}"!r})
    row = LeaseRow(holder="a", epoch=1, beat=1, released=False, name="c", address="", renewed_at=FakeClock().now())
    assert store.lease_store().take(None, row)
    writer = store.leader(Fence(epoch=1, holder="a"))
    for number in range(1_000_000):
        await writer.apply([PutSetting(name=name, value=str(number)) for name in ("first", "last")])
        print(number, flush=True)

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    async for line in process.stdout:
        if int(line) >= 20:
            break
    process.kill()
    await process.communicate()
    acknowledged = int(line)

    store = open_store(f"sqlite:///{path}")
    settings = await store.load_settings()
    await store.close()
    assert settings["first"] == settings["last"]
    assert int(settings["last"]) >= acknowledged, "what was acknowledged is there"


async def test_a_program_that_outlives_the_control_plane_does_not_keep_the_lock(path):
    script = f"""
import subprocess, sys
from llmgw.store.sql import open_store
store = open_store({f"sqlite:///{path}"!r})
child = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
import os; os._exit(0)
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    try:
        store = open_store(f"sqlite:///{path}")
        await store.close()
    finally:
        os.kill(int(output), signal.SIGKILL)


async def test_the_files_are_for_their_owner_only(store, lease, path):
    lease.take(None, ROW)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(("llmgw.db", "llmgw.db-shm", "llmgw.db-wal", "llmgw.db.lock"), 0o600)


async def test_writes_survive_a_power_cut_by_full_synchronisation_of_the_log(store):
    pragmas = {}

    def work(connection):
        for name in ("journal_mode", "synchronous", "busy_timeout"):
            pragmas[name] = connection.exec_driver_sql(f"PRAGMA {name}").scalar()

    await store._calls.run("pragmas", work, write=False)
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "busy_timeout": int(DEADLINE_S * 1000)}


async def test_migrations_make_the_very_schema_the_statements_use(store):
    def work(connection):
        return compare_metadata(MigrationContext.configure(connection), tables.metadata)

    assert await store._calls.run("compare", work, write=False) == []


async def test_migrations_need_no_file_in_the_working_folder(path, tmp_path, monkeypatch):
    elsewhere = tmp_path / "100% elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    store = open_store(f"sqlite:///{path}")
    await store.close()
    assert list(elsewhere.iterdir()) == []


async def test_a_database_of_a_newer_release_is_refused_and_left_alone(path):
    store = open_store(f"sqlite:///{path}")
    await store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")

    for _ in range(2):  # the second time shows that the first let go of the lock
        with pytest.raises(StoreError, match=r"newer release.*9999"):
            open_store(f"sqlite:///{path}")


async def test_a_migration_that_breaks_changes_nothing(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE lease (id INTEGER)")

    with pytest.raises(StoreUnavailable, match="lease"):
        open_store(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("lease",)]


async def test_a_file_that_is_no_database_is_refused_by_name(path):
    path.write_bytes(b"this is not a database, " * 100)
    with pytest.raises(StoreUnavailable, match=r"llmgw\.db.*not a database"):
        open_store(f"sqlite:///{path}")


async def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(StoreUnavailable, match="No such file") as caught:
        open_store(f"sqlite:///{tmp_path}/absent/llmgw.db")
    assert f"{tmp_path}/absent" in caught.value.hint


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "no url at all", "mysql://u:geheim@h/d"])
def test_a_url_that_names_no_usable_database_is_refused_without_repeating_it(url):
    with pytest.raises(InvalidInput) as caught:
        open_store(url)
    assert caught.value.field == "store_url"
    assert "geheim" not in str(caught.value)


async def _answers(calls, work):
    """Wait until the thread of a call that was given up is free again."""
    for _ in range(20):
        try:
            return await calls.run("after", work, write=False)
        except StoreUnavailable:
            continue
    raise AssertionError("the thread never came back")
