import pytest
from sqlalchemy import create_engine, inspect, text
from structlog.testing import capture_logs

from llmgw.schema.errors import StoreError
from llmgw.store import upgrade as upgrades
from llmgw.store.migrate import HEAD, revision
from llmgw.store.upgrade import Step, migrate_checked, pending, revisions, upgrade

UNBEARABLE = Step(revision="9998", what="Another lease.", older_releases_run_on=False)
LEASE = "INSERT INTO lease VALUES (1, 'h', 3, :beat, 0, 'control-1', '', '')"


@pytest.fixture
def connection():
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
def unbearable(monkeypatch):
    """One more migration, which older releases cannot bear. Watching the lease takes no time."""
    monkeypatch.setattr(upgrades, "pending", lambda *_: (UNBEARABLE,))
    monkeypatch.setattr(upgrades.time, "sleep", lambda _: None)


def test_each_migration_says_in_words_what_it_does_and_whether_older_releases_bear_it(connection):
    steps = pending(connection, "store x")
    assert [step.revision for step in steps] == list(reversed(revisions()))
    assert all(step.what and isinstance(step.older_releases_run_on, bool) for step in steps)


def test_what_is_missing_is_told_before_it_is_done(connection):
    upgrade(connection, "store x", to="0001")
    with capture_logs() as logs:
        migrate_checked(connection, "store x", alone=True)
    told = [(line["event"], line["store"], line["to"]) for line in logs]
    assert told == [("store.migrates", "store x", name) for name in reversed(revisions()) if name != "0001"]
    assert revision(connection) == HEAD
    assert pending(connection, "store x") == ()


def test_a_new_database_is_made_without_a_word(connection):
    with capture_logs() as logs:
        migrate_checked(connection, "store x", alone=False)
    assert logs == []
    assert revision(connection) == HEAD


def test_a_newer_schema_is_refused_with_what_to_do(connection):
    upgrade(connection, "store x")
    connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match=r"newer release.*9999") as refused:
        migrate_checked(connection, "store x", alone=True)
    assert refused.value.hint


def test_a_leader_of_an_older_release_that_lives_stops_what_it_cannot_bear(connection, unbearable, monkeypatch):
    upgrade(connection, "store x", to="0001")
    connection.execute(text(LEASE), {"beat": 1})
    monkeypatch.setattr(upgrades.time, "sleep", lambda _: connection.execute(text("UPDATE lease SET beat = 2")))
    with pytest.raises(StoreError, match=r"control-1 leads.*9998") as refused:
        migrate_checked(connection, "store x", alone=False)
    assert refused.value.code == "store_in_use"
    assert "stop all control planes" in refused.value.hint
    assert "join_tokens" not in inspect(connection).get_table_names()


def test_one_that_is_dead_or_alone_or_bears_it_stops_nothing(connection, unbearable):
    upgrade(connection, "store x", to="0001")
    migrate_checked(connection, "store x", alone=False)
    connection.execute(text(LEASE), {"beat": 1})
    migrate_checked(connection, "store x", alone=False)
    migrate_checked(connection, "store x", alone=True)
    assert revision(connection) == HEAD
