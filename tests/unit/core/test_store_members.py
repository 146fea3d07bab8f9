"""A store's members in each kind of trouble: what `ctl status` says of them."""

import pytest
from msgspec.structs import replace

from llmgw.core.store_members import LAG_BYTES, store_state
from llmgw.schema.store import Listed, MemberSeen, PatroniWord, PostgresWord, StoreRole


def member(name, role="replica", *, primary=False, timeline=3, lag=0):
    return MemberSeen(
        name=name,
        host=f"10.0.0.{name[-1]}",
        listed=Listed(role=role, lag=lag),
        patroni=PatroniWord(role="primary" if primary else "replica", state="running", alive=True),
        postgres=PostgresWord(in_recovery=not primary, timeline=timeline),
    )


LEADER, SYNC, REPLICA = member("db1", "leader", primary=True), member("db2", "sync_standby"), member("db3")


def problems(*seen):
    state = store_state(seen)
    return {one.name: one.problem for one in state.members if one.problem}, state.problem


def test_a_healthy_store_has_nothing_to_say():
    state = store_state((REPLICA, LEADER, SYNC))
    assert [(one.name, one.role, one.lag, one.problem) for one in state.members] == [
        ("db1", StoreRole.LEADER, 0, None),
        ("db2", StoreRole.SYNC_STANDBY, 0, None),
        ("db3", StoreRole.REPLICA, 0, None),
    ]
    assert state.problem is None


def test_a_frozen_patroni_beside_a_primary_is_told_also_when_the_list_forgot_it():
    frozen = replace(LEADER, patroni=None, listed=None)
    found, _ = problems(frozen, SYNC, REPLICA)
    assert found == {"db1": "Patroni does not answer while its PostgreSQL is primary: restart Patroni on 10.0.0.1"}


def test_two_primaries_are_named_and_the_older_timeline_is_the_stale_one():
    stale = replace(LEADER, patroni=None, listed=None)
    promoted = member("db2", "leader", primary=True, timeline=4)
    found, whole = problems(stale, promoted, REPLICA)
    assert whole == "two primaries: db1 and db2"
    assert found == {
        "db1": "a stale primary: it writes on timeline 3 while another one is on 4; stop PostgreSQL on 10.0.0.1"
    }


def test_a_database_that_does_not_start_says_where_to_look():
    failed = replace(REPLICA, patroni=PatroniWord(role="replica", state="start failed", alive=True), postgres=None)
    assert problems(LEADER, SYNC, failed)[0] == {"db3": "PostgreSQL does not start: its log on 10.0.0.3 says why"}


def test_without_a_synchronous_standby_writes_could_be_lost():
    assert problems(LEADER, replace(SYNC, listed=Listed(role="replica", lag=0)), REPLICA) == (
        {},
        "no synchronous standby: what is written now could be lost with the primary",
    )


def test_a_single_member_needs_no_standby():
    assert problems(LEADER) == ({}, None)


def test_nobody_that_writes_is_the_first_thing_to_say():
    assert problems(SYNC, REPLICA)[1] == "no primary: nothing can be written"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"patroni": None, "postgres": None}, "Patroni does not answer: look at it on 10.0.0.3"),
        ({"postgres": None}, "PostgreSQL does not answer from here: look at the network to 10.0.0.3"),
        (
            {"patroni": PatroniWord(role="replica", state="running", alive=False)},
            "Patroni answers but its loop stands still: restart it on 10.0.0.3",
        ),
        ({"patroni": PatroniWord(role="replica", state="stopping", alive=True)}, "it is stopping"),
        (
            {"watchdog": False},
            "no watchdog on 10.0.0.3: a frozen Patroni could leave a second primary writing",
        ),
        ({"listed": Listed(role="replica", lag=LAG_BYTES + 1)}, "16,777,217 bytes behind"),
    ],
)
def test_each_trouble_of_a_member_has_its_sentence(change, said):
    assert problems(LEADER, SYNC, replace(REPLICA, **change))[0] == {"db3": said}


def test_an_unknown_lag_is_minus_one_and_a_leaders_is_none():
    unknown = replace(REPLICA, listed=None)
    assert [one.lag for one in store_state((LEADER, SYNC, unknown)).members] == [0, 0, -1]
