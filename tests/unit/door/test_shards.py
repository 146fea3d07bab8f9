from llmgw.relay.upstream import Endpoint
from llmgw.schema.door import DoorReading, DoorShard, DoorUpdate


def shard(shard_id: str, endpoint: str = "http://127.0.0.1:7001") -> DoorShard:
    return DoorShard(id=shard_id, model="m", endpoint=endpoint, key="le_secret", paths=("/v1/completions",))


def test_an_update_replaces_the_whole_set(shards):
    shards.update(DoorUpdate(shards=(shard("r1.0"), shard("r2.0"))))
    shards.update(DoorUpdate(shards=(shard("r2.0", "http://127.0.0.1:7002"),)))

    assert shards.find("r1.0") is None
    assert shards.find("r2.0") == (
        Endpoint("127.0.0.1", 7002),
        b"Bearer le_secret",
        frozenset({"/v1/completions"}),
    )
    assert len(shards) == 1


def test_a_shard_without_a_usable_endpoint_is_left_out_alone(shards):
    shards.update(DoorUpdate(shards=(shard("r1.0", ""), shard("r2.0"))))

    assert shards.find("r1.0") is None
    assert shards.find("r2.0") is not None


def test_readings_grow_older_while_they_are_held(shards, clock):
    clock.advance(100)
    shards.update(DoorUpdate(readings=(DoorReading(shard="r1.0", age_s=1.5, values={"x": 2.0}),)))
    clock.advance(10)

    (reading,) = shards.stats().readings

    assert (reading.shard, reading.age_s, reading.values) == ("r1.0", 11.5, {"x": 2.0})
