import msgspec
import pytest

from llmgw.schema.errors import InvalidInput, NotFound
from llmgw.schema.replica import Restart
from llmgw.schema.report import Load, ShardLoad
from llmgw.server.services import logs, replicas


async def test_a_replica_lists_its_shards_with_their_processes(room):
    restart = Restart(at=room.clock.now(), reason="killed by signal 9")
    await room.put_replica("r1", "m", restarts=(restart,), restart_count=12)
    row = replicas.one_replica(room.fleet, "r1")
    (shard,) = row.shards
    assert (shard.node, shard.rank, shard.pid, shard.endpoint) == ("n1", 0, 4242, "http://127.0.0.1:41001")
    assert (row.restart_count, row.restarts) == (12, (restart,))


async def test_a_shard_shows_what_it_uses_until_that_is_a_minute_old(room):
    used = ShardLoad(shard="r1.0", cpu_cores=1.5)
    room.hear(await room.put_node(), load=Load(age_s=1.0, shards=(used,)))
    await room.put_replica("r1", "m")
    room.clock.advance(10)
    (shard,) = replicas.one_replica(room.fleet, "r1").shards
    assert (shard.load, shard.load_age_s) == (used, 11.0)
    room.clock.advance(50)
    (row,) = replicas.all_replicas(room.fleet)
    assert (row.shards[0].load, row.shards[0].load_age_s) == (None, None)


async def test_no_row_holds_the_engines_key(room):
    await room.put_replica("r1", "m")
    assert b"le_" not in msgspec.json.encode(replicas.all_replicas(room.fleet))


async def test_replicas_are_in_order_of_their_models(room):
    await room.put_replica("r1", "z")
    await room.put_replica("r2", "a")
    assert [row.id for row in replicas.all_replicas(room.fleet)] == ["r2", "r1"]


async def test_a_log_is_read_from_the_shards_node(room):
    await room.put_replica("r1", "m")
    room.logs.texts["r1.0"] = "first\nlast"
    (log,) = (await logs.replica_logs(room.fleet, "r1", rank=None, attempt=2, tail_bytes=4)).logs
    assert (log.text, log.attempt, log.node, log.error) == ("last", 2, "n1", None)


async def test_a_node_that_does_not_answer_is_told_in_its_place(room):
    await room.put_replica("r1", "m")
    (log,) = (await logs.replica_logs(room.fleet, "r1", rank=0, attempt=None, tail_bytes=4)).logs
    assert (log.text, log.error) == (None, "the agent of n1 is not connected")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"tail_bytes": 0}, "tail_bytes"),
        ({"tail_bytes": 2**21}, "tail_bytes"),
        ({"attempt": 0}, "attempt"),
        ({"attempt": 2**40}, "attempt"),
    ],
)
async def test_a_log_that_cannot_be_is_refused(room, asked, field):
    await room.put_replica("r1", "m")
    with pytest.raises(InvalidInput) as caught:
        await logs.replica_logs(room.fleet, "r1", **{"rank": None, "attempt": None, "tail_bytes": 10, **asked})
    assert caught.value.field == field
    assert caught.value.allowed


async def test_a_shard_that_is_not_there_names_those_that_are(room):
    await room.put_replica("r1", "m")
    with pytest.raises(NotFound) as caught:
        await logs.replica_logs(room.fleet, "r1", rank=1, attempt=None, tail_bytes=10)
    assert caught.value.allowed == ("0",)


async def test_an_unknown_replica_is_not_found(room):
    with pytest.raises(NotFound):
        replicas.one_replica(room.fleet, "r9")
