import pytest

from llmgw.agent.obeyed import Obeyed, after, is_shard_id, refusal
from llmgw.schema.desired import DesiredState, Mode
from llmgw.testing.engine_process import shard_for

BEFORE = Obeyed(epoch=5, holder="a", generation=9)


def order(epoch=5, holder="a", generation=9, mode=Mode.ENFORCE, **more):
    return DesiredState(epoch=epoch, holder=holder, generation=generation, mode=mode, **more)


@pytest.mark.parametrize(
    ("stale", "reason"),
    [
        (order(epoch=4, holder="z", generation=99), "epoch 4 is older than epoch 5, which this node has obeyed"),
        (order(holder="b"), "epoch 5 belongs to a, not to b"),
        (order(generation=8), "generation 8 is older than generation 9, which this node has obeyed"),
        (
            order(epoch=6, holder="b", generation=8),
            "generation 8 is older than generation 9, which this node has obeyed",
        ),
        (order(epoch=4, mode=Mode.OBSERVE), "epoch 4 is older than epoch 5, which this node has obeyed"),
        (order(holder="b", mode=Mode.OBSERVE), "epoch 5 belongs to a, not to b"),
    ],
)
def test_stale_orders_are_refused_with_a_reason(stale, reason):
    assert refusal(BEFORE, stale) == reason


@pytest.mark.parametrize(
    "good",
    [
        order(),
        order(generation=10),
        order(epoch=6, holder="b"),
        order(epoch=6, holder="b", generation=0, mode=Mode.OBSERVE),
    ],
)
def test_equal_and_newer_orders_are_obeyed(good):
    assert refusal(BEFORE, good) is None


def test_a_node_that_never_obeyed_takes_any_order():
    assert refusal(Obeyed(), order(epoch=0, holder="x", generation=0)) is None


def test_an_order_is_remembered_and_then_holds_against_older_ones():
    now = after(BEFORE, order(epoch=7, holder="c", generation=12))
    assert now == Obeyed(epoch=7, holder="c", generation=12)
    assert refusal(now, order()) is not None


def test_observing_fences_the_old_leader_but_keeps_the_generation():
    now = after(BEFORE, order(epoch=6, holder="b", generation=0, mode=Mode.OBSERVE))
    assert now == Obeyed(epoch=6, holder="b", generation=9)


@pytest.mark.parametrize("strange", ["../../etc/passwd", "", ".hidden", "a/b", "a\0b", "x" * 200, "ü"])
def test_an_order_with_an_id_that_is_no_file_name_is_refused_whole(strange):
    shard = shard_for("/m.gguf")
    bad = type(shard)(**{name: getattr(shard, name) for name in shard.__struct_fields__} | {"id": strange})
    assert not is_shard_id(strange)
    assert refusal(BEFORE, order(shards=(shard, bad))) == f"{strange!r} is no shard id"
    assert is_shard_id(shard.id)
