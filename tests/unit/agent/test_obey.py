import msgspec
import pytest

from llmgw.agent.obey import Running, Steps, obey
from llmgw.schema.desired import DesiredState, Mode
from llmgw.schema.replica import ShardPhase
from llmgw.testing.engine_process import shard_for

ALIVE = (ShardPhase.STARTING, ShardPhase.READY)


def shard(name="a", attempt=1):
    return msgspec.structs.replace(shard_for("/m.gguf"), id=name, attempt=attempt)


def order(*shards, mode=Mode.ENFORCE):
    return DesiredState(epoch=1, holder="h", generation=1, mode=mode, shards=shards)


def has(name="a", attempt=1, phase=ShardPhase.READY):
    return Running(id=name, attempt=attempt, phase=phase)


def test_without_an_order_nothing_changes():
    assert obey(None, [has()]) == Steps()


def test_observing_changes_nothing_whatever_the_set_says():
    assert obey(order(shard("b"), mode=Mode.OBSERVE), [has(), has("c", phase=ShardPhase.DEAD)]) == Steps()


def test_what_is_missing_is_started():
    assert obey(order(shard()), []) == Steps(start=(shard(),))


@pytest.mark.parametrize("phase", ALIVE)
def test_what_is_not_wanted_is_stopped(phase):
    assert obey(order(), [has(phase=phase)]) == Steps(stop=("a",))


@pytest.mark.parametrize("phase", [*ALIVE, ShardPhase.STOPPING, ShardPhase.DEAD])
def test_what_is_as_wanted_is_left_alone_even_when_it_died(phase):
    assert obey(order(shard()), [has(phase=phase)]) == Steps()


@pytest.mark.parametrize("phase", ALIVE)
def test_a_higher_attempt_stops_the_running_one_first(phase):
    assert obey(order(shard(attempt=2)), [has(phase=phase)]) == Steps(stop=("a",))


def test_a_higher_attempt_waits_while_the_earlier_one_stops():
    assert obey(order(shard(attempt=2)), [has(phase=ShardPhase.STOPPING)]) == Steps()


def test_a_higher_attempt_replaces_a_dead_one():
    assert obey(order(shard(attempt=2)), [has(phase=ShardPhase.DEAD)]) == Steps(start=(shard(attempt=2),))


def test_a_dead_shard_nobody_wants_is_forgotten():
    assert obey(order(), [has(phase=ShardPhase.DEAD)]) == Steps(forget=("a",))


def test_what_is_being_stopped_is_not_stopped_again():
    assert obey(order(), [has(phase=ShardPhase.STOPPING)]) == Steps()


def test_a_lower_attempt_than_the_running_one_changes_nothing():
    assert obey(order(shard(attempt=1)), [has(attempt=2)]) == Steps()
