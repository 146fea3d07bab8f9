import msgspec
import pytest

from llmgw.core.desired import desired_shards, digest, watch_paths
from llmgw.schema.desired import WantedEngine
from llmgw.schema.engine import EngineKind
from llmgw.schema.replica import ReplicaState
from llmgw.testing.factories import make_allocation, make_model, make_replica

MODELS = {"demo": make_model()}
PAIR = [make_allocation("n1"), make_allocation("n2")]


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        (ReplicaState.STARTING, True),
        (ReplicaState.READY, True),
        (ReplicaState.DRAINING, False),
        (ReplicaState.FAILED, False),
    ],
)
def test_shards_run_while_their_replica_starts_or_is_ready(state, wanted):
    assert bool(desired_shards("n1", [make_replica(state=state)], MODELS)) is wanted


def test_a_node_is_told_its_own_shards_with_all_they_need():
    replica = make_replica("ra", allocations=PAIR, attempt=3)
    (shard,) = desired_shards("n2", [replica], MODELS)
    assert (shard.id, shard.rank, shard.attempt) == ("ra.1", 1, 3)
    assert (shard.key, shard.source) == (replica.shards[1].key, MODELS["demo"].source)
    assert shard.allocation == PAIR[1]


def test_shards_of_a_model_that_is_gone_are_not_wanted():
    assert desired_shards("n1", [make_replica(model="gone")], MODELS) == ()


def test_only_absolute_paths_are_watched_each_once():
    models = [make_model("a", source="/b"), make_model("b", source="/a"), make_model("c", source="/b")]
    assert watch_paths([*models, make_model("d", source="hf:org/repo@main")]) == ("/a", "/b")


def test_equal_content_has_an_equal_digest_whatever_its_order():
    shards = desired_shards("n1", [make_replica("rb"), make_replica("ra")], MODELS)
    engines = [WantedEngine(kind=EngineKind.VLLM), WantedEngine(kind=EngineKind.LLAMACPP)]
    assert digest(shards, engines, ["/a", "/b"]) == digest(shards[::-1], engines[::-1], ["/b", "/a"])
    flags = [
        msgspec.structs.replace(shards[0], profile=msgspec.structs.replace(shards[0].profile, flags=order))
        for order in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    ]
    assert digest(flags[:1], (), ()) == digest(flags[1:], (), ())


def test_any_change_of_content_changes_the_digest():
    shards = desired_shards("n1", [make_replica("ra")], MODELS)
    again = desired_shards("n1", [make_replica("ra", attempt=2)], MODELS)
    engine = WantedEngine(kind=EngineKind.LLAMACPP)
    digests = {
        digest(shards, (), ()),
        digest(again, (), ()),
        digest((), (), ()),
        digest(shards, [engine], ()),
        digest(shards, (), ["/a"]),
    }
    assert len(digests) == 5
