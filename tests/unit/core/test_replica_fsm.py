from datetime import timedelta

import msgspec
import pytest

from llmgw.core.parking import BackoffPolicy
from llmgw.core.replica_fsm import KEPT_RESTARTS, Step, advance
from llmgw.schema.event import Severity
from llmgw.schema.model import ModelStatus, NodeFailure, Parked
from llmgw.schema.replica import Replica, ReplicaState, ShardPhase
from llmgw.testing.factories import (
    NOW,
    make_allocation,
    make_death,
    make_model,
    make_replica,
    make_report,
)

POLICY = BackoffPolicy(base_s=2, max_s=60, park_after=5)
LATER = NOW + timedelta(seconds=1)
PAIR = (make_allocation("n1"), make_allocation("n2"))
DEMO = make_model()
FRESH = ModelStatus(model="demo")


def starting(**fields) -> Replica:
    return make_replica(state=ReplicaState.STARTING, **fields)


def step(replica: Replica, *reports, status=FRESH, model=DEMO, now=LATER, heard=("n1", "n2"), gone=()) -> Step:
    return advance(
        replica,
        model=model,
        status=status,
        reports={report.id: report for report in reports},
        heard=frozenset(heard),
        gone=frozenset(gone),
        policy=POLICY,
        now=now,
    )


def says(replica: Replica, phase: ShardPhase = ShardPhase.READY, *, shard: int = 0, **fields):
    return make_report(replica.shards[shard], **{"attempt": replica.attempt, "phase": phase, **fields})


def dead(replica: Replica, cause: str = "it crashed", *, shard: int = 0, attempt: int | None = None, **death):
    return says(
        replica,
        ShardPhase.DEAD,
        shard=shard,
        attempt=replica.attempt if attempt is None else attempt,
        death=make_death(cause, **death),
    )


def kinds(made: Step) -> list[str]:
    return [event.kind for event in made.events]


# Starting ---------------------------------------------------------------------------------------------------------


def test_a_replica_is_ready_once_all_its_shards_are():
    replica = starting(allocations=PAIR)
    waiting = step(replica, says(replica), says(replica, ShardPhase.STARTING, shard=1))
    assert waiting.replica.state is ReplicaState.STARTING
    failed_before = msgspec.structs.replace(FRESH, failures=3, retry_at=NOW)
    made = step(replica, says(replica), says(replica, shard=1), status=failed_before)
    assert made.replica.state is ReplicaState.READY
    assert (made.replica.ready_at, made.replica.state_since) == (LATER, LATER)
    assert made.status == failed_before, "whether the start was good is seen later"
    assert kinds(made) == ["replica.ready"]


def test_a_start_counts_as_good_once_when_its_replica_has_been_ready_for_a_minute():
    failed_before = msgspec.structs.replace(FRESH, failures=3, retry_at=NOW, last_failure="it crashed")
    replica = make_replica()
    early = step(replica, says(replica), status=failed_before, now=NOW + timedelta(seconds=59))
    assert (early.status, early.replica.proven) == (failed_before, False)
    proven = step(replica, says(replica), status=failed_before, now=NOW + timedelta(seconds=60))
    assert (proven.status, proven.replica.proven, proven.events) == (FRESH, True, ())
    later = step(proven.replica, says(replica), status=failed_before, now=NOW + timedelta(days=1))
    assert later.status == failed_before, "failures of other replicas since are not forgiven again and again"


def test_what_the_agent_sees_is_kept_with_the_shard():
    replica = starting()
    report = says(replica, slots=4, context=8192, started_at=NOW, engine_version="b1")
    shard = step(replica, report).replica.shards[0]
    assert (shard.phase, shard.pid, shard.endpoint) == (ShardPhase.READY, 4242, "http://127.0.0.1:40001")
    assert (shard.slots, shard.context, shard.started_at, shard.engine_version) == (4, 8192, NOW, "b1")


def test_a_report_of_another_attempt_says_nothing():
    replica = starting(attempt=2)
    old = says(replica, attempt=1)
    assert step(replica, old).replica == replica
    assert step(replica, dead(replica, attempt=1)).replica == replica


def test_a_silent_or_empty_node_changes_nothing_about_a_replica_that_should_run():
    for replica in (starting(), make_replica()):
        assert step(replica, heard=()) == Step(replica=replica, status=FRESH)
        assert step(replica) == Step(replica=replica, status=FRESH)


def test_a_failed_start_waits_for_its_back_off():
    replica = starting()
    made = step(replica, dead(replica, "no such file"))
    assert (made.replica.state, made.replica.reason) == (ReplicaState.FAILED, "no such file")
    assert made.replica.attempt == 1
    assert (made.status.failures, made.status.retry_at) == (1, LATER + timedelta(seconds=2))
    assert kinds(made) == ["replica.start_failed"]
    early = step(made.replica, status=made.status, now=made.status.retry_at - timedelta(milliseconds=1))
    assert early.replica.state is ReplicaState.FAILED
    again = step(made.replica, status=made.status, now=made.status.retry_at).replica
    assert (again.state, again.attempt, again.restart_count) == (ReplicaState.STARTING, 2, 1)
    assert again.restarts[0].reason == "no such file"


def test_one_dead_shard_fails_the_whole_attempt_and_is_named():
    replica = starting(allocations=PAIR)
    made = step(replica, says(replica), dead(replica, "out of memory", shard=1))
    assert made.replica.state is ReplicaState.FAILED
    assert made.replica.reason == "shard 1 on n2: out of memory"
    assert made.events[0].node == "n2"


def test_the_model_is_parked_with_its_cause_and_stays_so():
    replica = starting()
    made = step(replica, dead(replica, "not a GGUF file", heals=False))
    assert made.status.parked.reason == "not a GGUF file"
    assert kinds(made) == ["replica.start_failed", "model.parked"]
    assert made.events[1].severity is Severity.ERROR
    much_later = step(made.replica, status=made.status, now=NOW + timedelta(days=30))
    assert much_later.replica == made.replica


def test_an_unparked_model_starts_its_failed_replica_again():
    failed = make_replica(state=ReplicaState.FAILED, reason="it crashed")
    assert step(failed).replica.state is ReplicaState.STARTING


def test_causes_in_the_environment_are_tried_for_ever():
    replica, status, now = starting(), FRESH, NOW
    for _ in range(20):
        made = step(replica, dead(replica, counts=False), status=status, now=now)
        now = made.status.retry_at
        again = step(made.replica, status=made.status, now=now)
        replica, status = again.replica, again.status
    assert status.parked is None
    assert (replica.attempt, replica.restart_count, len(replica.restarts)) == (21, 20, KEPT_RESTARTS)


def test_an_asked_death_is_no_failure():
    for replica in (starting(), make_replica()):
        made = step(replica, dead(replica, asked=True, status=0))
        assert (made.replica.state, made.replica.attempt, made.status, made.events) == (
            replica.state,
            1,
            FRESH,
            (),
        )


def test_an_exit_status_of_zero_that_nobody_asked_for_is_a_death():
    replica = starting()
    assert step(replica, dead(replica, status=0)).replica.state is ReplicaState.FAILED


def test_a_dead_report_without_a_death_is_still_a_death():
    replica = starting()
    made = step(replica, says(replica, ShardPhase.DEAD))
    assert made.replica.state is ReplicaState.FAILED
    assert "does not say why" in made.replica.reason


# Ready ------------------------------------------------------------------------------------------------------------


def test_a_ready_replica_that_dies_is_started_again_at_once():
    replica = step(starting(), says(starting(), started_at=NOW)).replica
    for now, failures in ((LATER, 1), (LATER + timedelta(seconds=60), 0)):
        made = step(replica, dead(replica, "killed by signal 9"), now=now)
        after = made.replica
        assert (after.state, after.attempt, after.restart_count) == (ReplicaState.STARTING, 2, 1)
        assert after.restarts[-1].reason == "killed by signal 9"
        assert (after.ready_at, after.shards[0].pid, after.shards[0].endpoint) == (None, None, None)
        assert after.shards[0].key == replica.shards[0].key
        assert kinds(made) == ["replica.restarted"]
        assert (made.status.failures, made.status.retry_at) == (failures, None)


def test_the_node_of_a_failed_start_and_of_a_death_is_kept_for_an_hour():
    starting = make_replica(state=ReplicaState.STARTING)
    first = step(starting, dead(starting), now=NOW).status
    assert first.failed_on == (NodeFailure(node="n1", at=NOW),)
    replica, later = make_replica(), NOW + timedelta(minutes=59)
    second = step(replica, dead(replica, counts=False), status=first, now=later).status
    assert second.failed_on == (NodeFailure(node="n1", at=NOW), NodeFailure(node="n1", at=later))
    last = NOW + timedelta(minutes=60)
    assert step(replica, dead(replica), status=second, now=last).status.failed_on == (
        NodeFailure(node="n1", at=later),
        NodeFailure(node="n1", at=last),
    )


def test_a_steady_replica_that_dies_is_started_again_at_once_whatever_failed_before():
    replica = make_replica()
    waiting = msgspec.structs.replace(FRESH, failures=2, retry_at=NOW + timedelta(days=1))
    made = step(replica, dead(replica, heals=False), status=waiting, now=NOW + timedelta(seconds=60))
    told = msgspec.structs.replace(made.status, failed_on=())
    assert (made.replica.state, told) == (ReplicaState.STARTING, waiting)


def test_a_replica_that_dies_right_after_each_start_backs_off_and_ends_parked():
    replica, status, now, pauses = starting(), FRESH, NOW, []
    while status.parked is None:
        ready = step(replica, says(replica), status=status, now=now)
        now += timedelta(seconds=1)
        died = step(ready.replica, dead(replica, "out of memory"), status=ready.status, now=now)
        replica, status = died.replica, died.status
        if replica.state is ReplicaState.FAILED and status.parked is None:
            assert kinds(died) == ["replica.start_failed"]
            pauses.append((status.retry_at - now).total_seconds())
            now = status.retry_at
            replica = step(replica, status=status, now=now).replica
    assert pauses == [4, 8, 16], "the first attempt after a ready replica's death is immediate"
    assert (status.parked.failures, status.parked.reason) == (5, "out of memory")
    assert kinds(died) == ["replica.start_failed", "model.parked"]
    assert (replica.state, replica.reason) == (ReplicaState.FAILED, "out of memory")


def test_a_ready_replica_that_dies_early_of_what_cannot_heal_parks_its_model():
    replica = make_replica()
    made = step(replica, dead(replica, "this CPU lacks an instruction", heals=False))
    assert (made.replica.state, made.status.parked.failures) == (ReplicaState.FAILED, 1)


def test_a_ready_replica_of_a_parked_model_that_dies_is_not_tried_again():
    parked = msgspec.structs.replace(FRESH, parked=Parked(failures=5, reason="broken", since=NOW))
    replica = make_replica()
    made = step(replica, dead(replica), status=parked)
    assert (made.replica.state, made.status) == (ReplicaState.FAILED, parked)


def test_an_engine_its_agent_started_anew_is_not_ready_until_it_says_so():
    replica = step(starting(), says(starting(), pid=1)).replica
    made = step(replica, says(replica, ShardPhase.STARTING, pid=2)).replica
    assert (made.state, made.attempt, made.ready_at) == (ReplicaState.STARTING, 1, None)
    assert step(made, says(made, pid=2)).replica.state is ReplicaState.READY


def test_an_adopted_engine_keeps_its_traffic_while_its_agent_makes_sure_of_it():
    replica = step(starting(), says(starting(), pid=1)).replica
    assert step(replica, says(replica, ShardPhase.STARTING, pid=1)).replica.state is ReplicaState.READY
    adopted = says(replica, ShardPhase.STARTING, pid=2, adopted=True)
    assert step(replica, adopted).replica.state is ReplicaState.READY


@pytest.mark.parametrize("model", [None, make_model(revision=2)])
@pytest.mark.parametrize("state", [ReplicaState.STARTING, ReplicaState.READY])
def test_nobody_wants_a_replica_back_that_died_after_its_model_changed(model, state):
    replica = make_replica(state=state)
    made = step(replica, dead(replica), model=model)
    assert made.replica.state is ReplicaState.DRAINING
    assert made.status.failures == 0


def test_failures_of_an_older_revision_do_not_count_for_the_new_one():
    old = msgspec.structs.replace(FRESH, failures=4, parked=Parked(failures=4, reason="broken", since=NOW))
    replica = starting(revision=2)
    made = step(replica, dead(replica), status=old, model=make_model(revision=2))
    assert (made.status.revision, made.status.failures, made.status.parked) == (2, 1, None)


def test_a_failed_replica_of_an_older_revision_is_left_to_the_planner():
    failed = make_replica(state=ReplicaState.FAILED)
    assert step(failed, model=make_model(revision=2)).replica == failed
    assert step(failed, model=None).replica == failed


# Draining ---------------------------------------------------------------------------------------------------------


def test_a_row_goes_only_when_every_shard_is_proven_gone():
    replica = make_replica(state=ReplicaState.DRAINING, allocations=PAIR, reason="scaled down")
    running = says(replica, ShardPhase.STOPPING, shard=1)
    assert step(replica, running).replica is not None
    assert step(replica, heard=("n1",)).replica is not None
    made = step(replica)
    assert (made.replica, kinds(made)) == (None, ["replica.removed"])
    assert "scaled down" in made.events[0].message


def test_a_shard_of_any_attempt_keeps_the_row():
    replica = make_replica(state=ReplicaState.DRAINING, attempt=3)
    assert step(replica, says(replica, attempt=2)).replica is not None
    assert step(replica, dead(replica, attempt=2)).replica is None


def test_a_lost_or_removed_node_holds_no_row_back():
    replica = make_replica(state=ReplicaState.DRAINING, allocations=PAIR)
    assert step(replica, heard=("n1",), gone=("n2",)).replica is None
    assert step(replica, says(replica, shard=1), heard=("n1", "n2"), gone=("n2",)).replica is None


def test_a_death_while_draining_changes_nothing_but_the_row_going():
    replica = make_replica(state=ReplicaState.DRAINING)
    made = step(replica, dead(replica))
    assert (made.replica, made.status) == (None, FRESH)
