"""What is special about PostgreSQL: deadlines against a server that says nothing, reconnecting, several processes."""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from msgspec.structs import replace
from sqlalchemy import event, text

from llmgw.ports import FleetRows, PutSetting
from llmgw.schema.errors import Fenced, InvalidInput, StoreError, StoreUnavailable
from llmgw.schema.lease import Fence, LeaseRow
from llmgw.store import statements, tables, upgrade
from llmgw.store.calls import Calls
from llmgw.store.migrate import migrate
from llmgw.store.postgresql import PostgresqlBackend
from llmgw.store.sql import SqlStore, open_store
from llmgw.testing.clock import FakeClock
from llmgw.testing.postgres import PASSWORD

DEADLINE_S = 1.0
LATE_S = 8.0
"""Far beyond the deadline, far below "for ever": what a busy machine may add."""

ROW = LeaseRow(
    holder="a", epoch=1, beat=1, released=False, name="c", address="127.0.0.1:1", renewed_at=FakeClock().now()
)
FENCE = Fence(epoch=1, holder="a")
SLEEP = text("SELECT pg_sleep(60)")


@pytest.fixture
async def store(database):
    store = open_store(database, deadline_s=DEADLINE_S)
    yield store
    await store.close()


@pytest.fixture
def lease(store):
    lease = store.lease_store()
    yield lease
    lease.close()


@pytest.fixture
def other(postgres, database):
    """Another program that uses the database."""
    with postgres.connect(database.rpartition("/")[2]) as connection:
        yield connection


@contextlib.contextmanager
def gives_up():
    started = time.monotonic()
    with pytest.raises(StoreUnavailable) as caught:
        yield caught
    assert time.monotonic() - started < LATE_S


async def works(store, lease):
    """Everything is as before, with at most a few calls that meet an old connection."""
    await until(lambda: asyncio.to_thread(lease.read))
    await until(lambda: store.leader(FENCE).apply([PutSetting(name="a", value="1")]))
    assert await store.load_settings() == {"a": "1"}


async def has_free_threads(calls, count):
    """No thread waits for what was given up."""
    meet = threading.Barrier(count, timeout=LATE_S)
    await asyncio.gather(*(asyncio.wrap_future(calls._pool.submit(meet.wait)) for _ in range(count)))


async def until(call):
    deadline = time.monotonic() + 30
    while True:
        try:
            return await call()
        except StoreUnavailable:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


# A server that says nothing -------------------------------------------------------------------------


async def test_a_frozen_server_costs_a_call_its_deadline_and_no_thread(store, lease, postgres):
    lease.take(None, ROW)
    await store.load_keys()
    with postgres.frozen():
        for _ in range(3):
            with gives_up() as caught:
                await store.load_keys()
            with gives_up():
                await store.leader(FENCE).apply([])
            with gives_up():
                lease.renew(replace(ROW, beat=2))
        assert f"no answer to load_keys within {DEADLINE_S:g} s" in caught.value.message
        await has_free_threads(store._calls, 4)
        await has_free_threads(lease._calls, 1)
    await works(store, lease)


async def test_many_calls_to_a_frozen_server_all_end_at_their_deadline(store, lease, postgres):
    lease.take(None, ROW)
    with postgres.frozen(), gives_up():
        async with asyncio.TaskGroup() as group:
            failed = [group.create_task(_fails(store.load_keys())) for _ in range(20)]
        raise failed[0].result()
    await works(store, lease)


async def _fails(call):
    try:
        await call
    except StoreUnavailable as error:
        return error
    raise AssertionError("it answered")


async def test_a_call_given_up_is_cut_and_its_connection_never_used_again(store):
    used = []

    def work(connection):
        used.append(connection.connection.driver_connection)
        return connection.execute(SLEEP)

    def note(connection):
        used.append(connection.connection.driver_connection)

    with closing(Calls(store._backend, threads=1, deadline_s=DEADLINE_S, observe=None)) as calls:
        with gives_up():
            await calls.run("sleep", work, write=False)
        with gives_up():
            await asyncio.to_thread(calls.wait_for, "sleep", work, write=False)
        await until(lambda: calls.run("after", note, write=False))
    assert len(set(map(id, used))) == len(used) == 3
    assert all(connection.closed for connection in used)


async def test_a_caller_that_goes_away_ends_its_statement(store):
    with closing(Calls(store._backend, threads=1, deadline_s=60.0, observe=None)) as calls:
        running = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work(connection):
            loop.call_soon_threadsafe(running.set)
            return connection.execute(SLEEP)

        task = asyncio.create_task(calls.run("sleep", work, write=False))
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(calls.run("after", lambda connection: None, write=False), LATE_S)


async def test_a_connection_that_comes_too_late_for_its_call_is_kept_for_the_next(database, monkeypatch):
    migrate(PostgresqlBackend(database))
    backend = PostgresqlBackend(database)
    made = []

    def slowly():
        time.sleep(1.5 * DEADLINE_S)
        made.append(psycopg_connect())
        return made[-1]

    psycopg_connect = backend._connect
    monkeypatch.setattr(backend, "_connect", slowly)
    with closing(Calls(backend, threads=1, deadline_s=DEADLINE_S, observe=None)) as calls:
        with gives_up():
            await calls.run("first", lambda connection: None, write=False)
        await until(lambda: calls.run("second", lambda connection: None, write=False))
    assert len(made) == 1


async def test_a_server_frozen_while_a_connection_is_made_ready_blocks_no_thread_for_long(database, postgres):
    backend = PostgresqlBackend(database)
    with closing(Calls(backend, threads=1, deadline_s=DEADLINE_S, observe=None)) as calls:

        def freeze(*_):
            postgres.freeze()

        event.listen(calls._engine, "connect", freeze, insert=True)
        try:
            with gives_up():
                await calls.run("first", lambda connection: connection.execute(text("SELECT 1")), write=False)
            event.remove(calls._engine, "connect", freeze)
            await has_free_threads(calls, 1)
        finally:
            postgres.thaw()
        await until(lambda: calls.run("second", lambda connection: None, write=False))


async def test_a_commit_that_waits_for_a_replica_keeps_the_deadline(store, lease, postgres):
    """`statement_timeout` does not cover this wait."""
    lease.take(None, ROW)
    with postgres.connect() as admin:
        admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        admin.execute("SELECT pg_reload_conf()")
        try:
            await until_reloaded(postgres, "nobody")
            with gives_up():
                await store.leader(FENCE).apply([PutSetting(name="a", value="0")])
        finally:
            admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
            admin.execute("SELECT pg_reload_conf()")
    await works(store, lease)


async def until_reloaded(postgres, value):
    async with asyncio.timeout(30):
        while True:
            with postgres.connect() as connection:
                if connection.execute("SHOW synchronous_standby_names").fetchone() == (value,):
                    return
            await asyncio.sleep(0.05)


async def test_a_lease_call_does_not_wait_behind_other_calls(store, lease):
    lease.take(None, ROW)
    sleeping = [asyncio.ensure_future(_fails(store._calls.run("sleep", _sleep, write=False))) for _ in range(8)]
    await asyncio.sleep(0.1)
    assert await asyncio.to_thread(lease.renew, replace(ROW, beat=2))
    await asyncio.gather(*sleeping)


def _sleep(connection):
    connection.execute(SLEEP)


# A server that ends, or leads no longer ---------------------------------------------------------------


@pytest.mark.parametrize("end", ["stop", "crash"])
async def test_a_restart_of_the_server_costs_no_call(store, lease, postgres, end):
    lease.take(None, ROW)
    await asyncio.gather(*(store.load_fleet() for _ in range(8)))
    getattr(postgres, end)()
    with gives_up() as caught:
        await store.load_fleet()
    assert "Connection refused" in caught.value.message
    with gives_up():
        lease.renew(replace(ROW, beat=2))
    postgres.start()

    assert await store.load_fleet() == FleetRows()
    assert lease.renew(replace(ROW, beat=3))
    await works(store, lease)


async def test_a_wall_clock_set_back_after_an_outage_costs_no_connections(store, monkeypatch):
    wall = SimpleNamespace(time=lambda: time.time() + 3600.0)
    monkeypatch.setattr("sqlalchemy.pool.base.time", wall)
    await asyncio.gather(*(store.load_fleet() for _ in range(8)))
    with gives_up():
        await store._calls.run("sleep", _sleep, write=False)
    await has_free_threads(store._calls, 4)
    wall.time = time.time
    made = []
    event.listen(store._calls._engine, "connect", lambda connection, _: made.append(connection))
    for _ in range(30):
        await until(store.load_fleet)
    assert len(made) <= 4, "each thread connects anew once, and no call more"


async def test_connections_made_while_a_thousand_agents_hold_streams_are_as_good_as_others(store, lease):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    with contextlib.ExitStack() as held:
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for _ in range(1100):
            held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        lease.take(None, ROW)
        await asyncio.gather(*(store.load_fleet() for _ in range(8)))
        # The second use of each: what a connection is looked at for.
        await asyncio.gather(*(store.load_fleet() for _ in range(8)))
        assert lease.renew(replace(ROW, beat=2))
        await works(store, lease)


async def test_sessions_the_server_ended_while_they_lay_idle_are_replaced_unseen(store, lease, other):
    lease.take(None, ROW)
    await asyncio.gather(*(store.load_fleet() for _ in range(8)))
    other.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert await store.load_fleet() == FleetRows()
    assert lease.read() == ROW


async def test_a_server_that_writes_no_longer_is_left(store, lease, other):
    """After a switchover the former primary answers on; a new connection finds the new one."""
    lease.take(None, ROW)
    await asyncio.gather(*(store.load_fleet() for _ in range(8)))
    old = session_ids(other)
    other.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE 'cannot execute INSERT in a read-only transaction' USING ERRCODE = '25006'; END $$"
    )
    other.execute("CREATE TRIGGER refuse BEFORE INSERT ON settings EXECUTE FUNCTION refuse()")
    with pytest.raises(StoreUnavailable, match="read-only"):
        await store.leader(FENCE).apply([PutSetting(name="a", value="1")])
    other.execute("DROP TRIGGER refuse ON settings")
    await works(store, lease)
    await asyncio.gather(*(store.load_fleet() for _ in range(8)))
    # The lease has a pool of its own, which saw nothing.
    assert len(session_ids(other) & old) == 1


def session_ids(connection):
    found = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return {row[0] for row in found}


# Several processes -----------------------------------------------------------------------------------


async def test_another_process_may_live_so_nobody_is_proven_dead(lease):
    assert not lease.proves_old_holder_dead()


LEADER = """
import asyncio, sys
from llmgw.ports import PutSetting
from llmgw.schema.lease import Fence
from llmgw.store import statements
from llmgw.store.sql import open_store

store = open_store(sys.argv[1])

def work(connection):
    statements.check_fence(connection, Fence(epoch=1, holder="a"))
    statements.carry_out(connection, [PutSetting(name="half", value="1")])
    print("within", flush=True)
    sys.stdin.readline()

asyncio.run(store._calls.run("apply", work, write=True))
"""


async def test_a_leader_frozen_within_a_transaction_can_be_overtaken(store, lease, database):
    lease.take(None, ROW)
    leader = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LEADER, database, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert await leader.stdout.readline() == b"within\n"
        leader.send_signal(signal.SIGSTOP)
        new = replace(ROW, holder="b", epoch=2, beat=2)
        with gives_up():
            await asyncio.to_thread(lease.take, ROW, new)
        # One that was given up may have taken effect all the same: what counts is the row.
        await until(lambda: asyncio.to_thread(lease.take, ROW, new))
        assert lease.read() == new
    finally:
        leader.kill()
        await leader.communicate()
    assert await store.load_settings() == {}
    with pytest.raises(Fenced):
        await store.leader(FENCE).apply([])


async def test_a_takeover_waits_for_the_write_that_runs_and_the_next_write_is_refused(database):
    store = open_store(database, deadline_s=20.0)
    lease = store.lease_store()
    lease.take(None, ROW)
    loop, inside, go_on = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    new = replace(ROW, holder="b", epoch=2, beat=2)

    def work(connection):
        statements.check_fence(connection, FENCE)
        loop.call_soon_threadsafe(inside.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        statements.carry_out(connection, [PutSetting(name="a", value="1")])

    writing = asyncio.ensure_future(store._calls.run("apply", work, write=True))
    await inside.wait()
    taking = asyncio.ensure_future(asyncio.to_thread(lease.take, ROW, new))
    await asyncio.sleep(0.3)
    assert not taking.done()
    go_on.set()
    await writing
    assert await taking
    with pytest.raises(Fenced):
        await store.leader(FENCE).apply([PutSetting(name="a", value="2")])
    assert await store.load_settings() == {"a": "1"}
    lease.close()
    await store.close()


async def test_all_tables_are_read_as_of_one_moment(store, lease, other):
    seen = []

    def work(connection):
        seen.append(connection.scalar(text("SELECT count(*) FROM settings")))
        other.execute("INSERT INTO settings VALUES ('late', '1')")
        seen.append(connection.scalar(text("SELECT count(*) FROM settings")))
        seen.append(connection.scalar(text("SHOW transaction_read_only")))

    await store._calls.run("twice", work, write=False)
    assert seen == [0, 0, "on"]


async def test_several_control_planes_that_start_at_once_migrate_once(database, other):
    script = "import sys; from llmgw.store.sql import open_store; open_store(sys.argv[1])"
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-W", "ignore", "-c", script, database, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]
    ended = await asyncio.gather(*(process.communicate() for process in started))
    assert [process.returncode for process in started] == [0, 0, 0], ended
    assert other.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)


def test_migrations_wait_for_another_control_planes_no_longer_than_their_deadline(database, other):
    other.execute("BEGIN")
    other.execute("SELECT pg_advisory_xact_lock(%s)", [0x6C6C6D6777])
    with gives_up() as caught:
        migrate(PostgresqlBackend(database), deadline_s=DEADLINE_S)
    assert "no answer to migrations" in caught.value.message
    other.execute("ROLLBACK")
    migrate(PostgresqlBackend(database))


async def test_migrations_make_the_very_schema_the_statements_use(store):
    def work(connection):
        return compare_metadata(MigrationContext.configure(connection), tables.metadata)

    assert await store._calls.run("compare", work, write=False) == []


async def test_a_database_of_a_newer_release_is_refused_and_left_alone(store, database, other):
    other.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match=r"newer release.*9999"):
        open_store(database)


def test_a_renewal_beside_a_migration_is_seen_by_it(store, database, other, monkeypatch):
    other.execute("INSERT INTO lease VALUES (1, 'h', 3, 1, false, 'control-1', '', '')")
    other.execute("UPDATE alembic_version SET version_num = '0002'")
    step = upgrade.Step(revision="9998", what="Another lease.", older_releases_run_on=False)
    monkeypatch.setattr(upgrade, "pending", lambda *_: (step,))
    monkeypatch.setattr(upgrade.time, "sleep", lambda _: other.execute("UPDATE lease SET beat = beat + 1"))
    with pytest.raises(StoreError, match="control-1 leads with an older release"):
        migrate(PostgresqlBackend(database))
    assert other.execute("SELECT version_num FROM alembic_version").fetchone() == ("0002",)


def test_a_migration_that_breaks_changes_nothing(database, other):
    other.execute("CREATE TABLE lease (id INTEGER)")
    with pytest.raises(StoreError, match="lease"):
        open_store(database)
    found = other.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert found == [("lease",)]


# What a session promises ------------------------------------------------------------------------------


async def test_each_session_has_the_servers_own_limits_and_durable_commits(store, other):
    name = other.execute("SELECT current_database()").fetchone()[0]
    other.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    found = {}

    def work(connection):
        for setting in ("statement_timeout", "idle_in_transaction_session_timeout", "synchronous_commit"):
            found[setting] = connection.scalar(text(f"SHOW {setting}"))

    with closing(Calls(store._backend, threads=1, deadline_s=2.0, observe=None)) as calls:
        await calls.run("settings", work, write=True)
    assert found == {
        "statement_timeout": "3s",
        "idle_in_transaction_session_timeout": "3s",
        "synchronous_commit": "on",
    }


async def test_a_stricter_commit_stays_as_it_is(database, other):
    name = other.execute("SELECT current_database()").fetchone()[0]
    other.execute(f"ALTER DATABASE {name} SET synchronous_commit = remote_apply")
    with closing(Calls(PostgresqlBackend(database), threads=1, deadline_s=20.0, observe=None)) as calls:
        found = await calls.run(
            "setting", lambda connection: connection.scalar(text("SHOW synchronous_commit")), write=False
        )
    assert found == "remote_apply"


# What people are told ---------------------------------------------------------------------------------


def refused(url, **more):
    with pytest.raises(StoreError) as caught:
        open_store(url, **more)
    return caught.value.message


def test_a_closed_port_a_missing_database_and_a_wrong_password_are_told_in_words(postgres, database):
    nowhere = refused("postgresql://llmgw:geheim@127.0.0.1:1/llmgw")
    assert nowhere.startswith("store llmgw on 127.0.0.1 port 1: connection failed")
    assert 'database "absent" does not exist' in refused(postgres.url("absent"))
    wrong = refused(postgres.url("absent", password="geheim"))
    assert 'password authentication failed for user "llmgw"' in wrong
    assert "no password supplied" in refused(postgres.url("absent", password=None))
    assert "geheim" not in nowhere + wrong


async def test_the_password_may_come_apart_from_the_url(postgres, database):
    name = database.rpartition("/")[2]
    store = open_store(postgres.url(name, password=None), password=PASSWORD)
    assert await store.load_settings() == {}
    await store.close()


async def test_the_password_may_lie_in_a_passfile(postgres, database, tmp_path):
    name = database.rpartition("/")[2]
    passfile = tmp_path / "pgpass"
    escaped = PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
    passfile.write_text(f"127.0.0.1:{postgres.port}:{name}:llmgw:{escaped}\n")
    passfile.chmod(0o600)
    store = open_store(f"{postgres.url(name, password=None)}?passfile={passfile}")
    assert await store.load_settings() == {}
    await store.close()


async def test_the_servers_unix_socket_will_do(postgres, database):
    name = database.rpartition("/")[2]
    store = open_store(f"postgresql://llmgw@/{name}?host={postgres.folder}&port={postgres.port}", password=PASSWORD)
    assert await store.load_settings() == {}
    with postgres.frozen(), gives_up():
        await store.load_settings()
    await store.close()


async def test_of_several_hosts_the_one_that_answers_is_used(postgres, database):
    name = database.rpartition("/")[2]
    url = f"postgresql://llmgw@127.0.0.1:1,127.0.0.1:{postgres.port}/{name}?target_session_attrs=read-write"
    store = open_store(url, password=PASSWORD)
    assert await store.load_settings() == {}
    await store.close()


async def test_a_user_without_rights_is_told_so_without_values(store, lease, postgres, database, other):
    lease.take(None, ROW)
    name = database.rpartition("/")[2]
    role = f"role_{name}"
    other.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    other.execute(f"GRANT SELECT, UPDATE ON lease TO {role}")
    try:
        poor = PostgresqlBackend(f"postgresql://{role}:x@127.0.0.1:{postgres.port}/{name}")
        poor_store = SqlStore(poor)
        with pytest.raises(StoreError, match="permission denied for table settings") as caught:
            await poor_store.leader(FENCE).apply([PutSetting(name="key", value="top-secret")])
        assert "top-secret" not in repr(caught.value.__cause__) + str(caught.value)
        assert caught.value.code == "store_error"
        await poor_store.close()
    finally:
        other.execute(f"DROP OWNED BY {role}")
        other.execute(f"DROP ROLE {role}")


async def test_errors_hold_neither_statements_nor_values(store, lease, other):
    lease.take(None, ROW)
    other.execute("DROP TABLE settings")
    with pytest.raises(StoreError, match='relation "settings" does not exist') as caught:
        await store.leader(FENCE).apply([PutSetting(name="key", value="top-secret")])
    assert "top-secret" not in repr(caught.value.__cause__) + str(caught.value)
    assert "DELETE" not in caught.value.message


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:geheim@h:port/d",
        "postgresql://u:x@geheim@h/d",
        "postgresql://u:x/geheim@h/d",
        "postgresql://u:1/geheim@h/d",
        "postgresql://u:geheim@h/d?sslmode",
        "postgresql://u:%zzgeheim@h/d",
        "postgresql+psycopg://u:geheim@h/d",
        "postgresql+asyncpg://u:geheim@h/d",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_repeating_it(url):
    with pytest.raises(InvalidInput) as caught:
        open_store(url)
    assert caught.value.field == "store_url"
    assert "geheim" not in f"{caught.value} {caught.value.hint} {caught.value.__cause__!r}"


def test_a_mistyped_parameter_is_answered_with_the_nearest_one():
    with pytest.raises(InvalidInput, match="did you mean the parameter 'sslmode'"):
        open_store("postgresql://u:geheim@h/d?sslmod=require")


def test_without_the_driver_the_extra_to_install_is_named(tmp_path):
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from llmgw.schema.errors import InvalidInput\n"
        "from llmgw.store.sql import open_store\n"
        "try: open_store('postgresql://h/d')\n"
        "except InvalidInput as error: print(error, error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert "psycopg" in done.stdout
    assert "pip install 'llmgw[postgres]'" in done.stdout
