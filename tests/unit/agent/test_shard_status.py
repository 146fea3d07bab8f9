import pytest

from llmgw.agent.local_state import LocalState, ShardRecord
from llmgw.agent.process_group import Identity
from llmgw.agent.shard_status import ShardStatus
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import Death
from llmgw.testing.clock import FakeClock
from llmgw.testing.engine_process import shard_for

IDENTITY = Identity(name="a", pid=7, start_ticks=2, boot_id="b")
DEATH = Death(status=-9, asked=False, cause="killed")


@pytest.fixture
def state(tmp_path):
    state = LocalState(str(tmp_path))
    state.open()
    yield state
    state.close()


def status(state, **more):
    told = []
    record = ShardRecord(desired=shard_for("/m.gguf"), started_at=FakeClock().now(), **more)
    return ShardStatus(record, state, lambda: told.append(1)), told


def test_a_start_is_on_disk_and_told(state):
    one, told = status(state)
    one.started(IDENTITY)
    assert one.report().pid == 7
    assert not one.report().adopted
    assert state.records()[0].identity == IDENTITY
    assert len(told) == 1


def test_what_it_is_doing_is_told_when_it_is_new_and_only_while_it_is_not_ready(state):
    one, told = status(state)
    for doing in ("loading", "loading", None):
        one.say(doing)
    assert one.report().progress == "loading"
    assert len(told) == 1
    one.enter(ShardPhase.READY)
    assert one.report().progress is None


def test_a_death_survives_a_restart_of_the_agent(state):
    one, _ = status(state, identity=IDENTITY)
    one.died(DEATH)
    again = ShardStatus(state.records()[0], state, lambda: None)
    assert again.report().phase is ShardPhase.DEAD
    assert again.report().death == DEATH
    assert again.report().pid is None


def test_an_asked_end_leaves_no_record(state):
    one, _ = status(state, identity=IDENTITY)
    one.started(IDENTITY)
    one.ended()
    assert one.gone
    assert state.records() == ()


def test_it_is_settled_once_its_fate_is_known(state):
    one, _ = status(state, identity=IDENTITY)
    assert one.report().adopted
    assert not one.settled.is_set()
    one.enter(ShardPhase.READY)
    assert one.settled.is_set()
