import msgspec
from hypothesis import given
from hypothesis import strategies as st

from llmgw.agent.obey import Running, Steps, obey
from llmgw.schema.desired import DesiredState, Mode
from llmgw.schema.replica import ShardPhase
from llmgw.testing.engine_process import shard_for

IDS = ("a", "b", "c")
SHARD = shard_for("/m.gguf")


def order(attempts):
    shards = tuple(msgspec.structs.replace(SHARD, id=name, attempt=attempt) for name, attempt in attempts.items())
    return DesiredState(epoch=1, holder="h", generation=1, mode=Mode.ENFORCE, shards=shards)


def carry_out(steps, node):
    """One turn of the world: what was stopping ends, what dies unasked stays as dead."""
    after = {name: one for name, one in node.items() if one.phase is not ShardPhase.STOPPING}
    for name in steps.forget:
        del after[name]
    for name in steps.stop:
        after[name] = Running(id=name, attempt=after[name].attempt, phase=ShardPhase.STOPPING)
    for shard in steps.start:
        after[shard.id] = Running(id=shard.id, attempt=shard.attempt, phase=ShardPhase.READY)
    return after


nodes = st.dictionaries(
    st.sampled_from(IDS), st.tuples(st.integers(1, 3), st.sampled_from(list(ShardPhase))), max_size=3
).map(lambda found: {name: Running(id=name, attempt=attempt, phase=phase) for name, (attempt, phase) in found.items()})
wanted = st.dictionaries(st.sampled_from(IDS), st.integers(1, 3), max_size=3)


@given(node=nodes, attempts=wanted)
def test_whatever_runs_becomes_what_is_wanted_and_then_nothing_is_left_to_do(node, attempts):
    desired = order(attempts)
    for _ in range(4):
        node = carry_out(obey(desired, node.values()), node)
    assert node.keys() == attempts.keys()
    assert all(one.attempt >= attempts[name] for name, one in node.items())
    steps = obey(desired, node.values())
    assert steps == Steps()


@given(node=nodes, attempts=wanted)
def test_no_step_starts_beside_something_that_still_runs(node, attempts):
    for shard in obey(order(attempts), node.values()).start:
        assert shard.id not in node or node[shard.id].phase is ShardPhase.DEAD


@given(node=nodes, attempts=wanted)
def test_a_death_is_kept_until_its_shard_is_replaced_or_unwanted(node, attempts):
    steps = obey(order(attempts), node.values())
    started = {shard.id for shard in steps.start}
    for name, one in node.items():
        if one.phase is ShardPhase.DEAD and attempts.get(name) == one.attempt:
            assert name not in started
            assert name not in steps.forget
