"""What every store promises about the lease row: compare-and-set, and nothing else."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from llmgw.schema.lease import LeaseRow
from llmgw.testing.clock import FakeClock

ROW = LeaseRow(
    holder="a",
    epoch=4,
    beat=10,
    released=False,
    name="control-1",
    address="127.0.0.1:8800",
    renewed_at=FakeClock().now(),
)


@pytest.fixture
async def lease(store):
    lease = store.lease_store()
    yield lease
    await asyncio.to_thread(lease.close)


@pytest.fixture
async def other(store):
    lease = store.lease_store()
    yield lease
    await asyncio.to_thread(lease.close)


async def test_there_is_no_row_before_anybody_led(lease):
    assert lease.read() is None


async def test_the_first_take_makes_the_row(lease, other):
    assert lease.take(None, ROW)
    assert lease.read() == ROW
    assert other.read() == ROW


async def test_a_first_take_fails_when_there_is_a_row_already(lease, other):
    assert lease.take(None, ROW)
    assert not other.take(None, replace(ROW, holder="b"))
    assert lease.read() == ROW


async def test_a_take_succeeds_on_the_row_that_was_seen(lease, other):
    lease.take(None, ROW)
    new = replace(ROW, holder="b", epoch=5, beat=11, name="control-2")
    assert other.take(ROW, new)
    assert lease.read() == new


@pytest.mark.parametrize(
    "seen",
    [
        replace(ROW, holder="x"),
        replace(ROW, epoch=3),
        replace(ROW, epoch=5),
        replace(ROW, beat=9),
        replace(ROW, beat=11),
        replace(ROW, released=True),
    ],
    ids=lambda row: f"{row.holder}-{row.epoch}-{row.beat}-{row.released}",
)
async def test_a_take_fails_when_the_row_is_not_the_one_seen(lease, other, seen):
    lease.take(None, ROW)
    assert not other.take(seen, replace(ROW, holder="b", epoch=6))
    assert lease.read() == ROW


async def test_what_is_for_people_is_not_compared(lease, other):
    lease.take(None, ROW)
    clock = FakeClock()
    clock.advance(60)
    assert other.take(replace(ROW, name="?", address="?", renewed_at=clock.now()), replace(ROW, holder="b", epoch=5))


async def test_a_take_that_expects_a_row_fails_without_one(lease):
    assert not lease.take(ROW, replace(ROW, epoch=5))
    assert lease.read() is None


async def test_a_renewal_moves_the_beat(lease, other):
    lease.take(None, ROW)
    assert lease.renew(replace(ROW, beat=12))
    assert other.read() == replace(ROW, beat=12)


@pytest.mark.parametrize(
    "renewal",
    [
        replace(ROW, beat=11, holder="b"),
        replace(ROW, beat=11, epoch=3),
        replace(ROW, beat=11, epoch=5),
        replace(ROW, beat=10),
        replace(ROW, beat=9),
    ],
    ids=["other holder", "lower epoch", "higher epoch", "same beat", "late, with a lower beat"],
)
async def test_a_renewal_fails_unless_the_row_is_ours_and_older(lease, renewal):
    lease.take(None, ROW)
    assert not lease.renew(renewal)
    assert lease.read() == ROW


async def test_a_renewal_fails_without_a_row(lease):
    assert not lease.renew(ROW)
    assert lease.read() is None


async def test_a_released_row_cannot_be_renewed_but_taken(lease, other):
    lease.take(None, ROW)
    assert lease.release("a", 4)
    assert not lease.renew(replace(ROW, beat=11))
    assert not other.take(ROW, replace(ROW, holder="b", epoch=5)), "it is no longer the row that was seen"
    assert other.take(replace(ROW, released=True), replace(ROW, holder="b", epoch=5, beat=11))
    assert lease.read() == replace(ROW, holder="b", epoch=5, beat=11)


@pytest.mark.parametrize(("holder", "epoch"), [("b", 4), ("a", 3), ("a", 5)])
async def test_only_the_holder_of_this_epoch_can_release(lease, holder, epoch):
    lease.take(None, ROW)
    assert not lease.release(holder, epoch)
    assert lease.read() == ROW


async def test_a_release_without_a_row_says_so(lease):
    assert not lease.release("a", 1)


async def test_of_many_takers_of_the_same_row_one_wins(store, lease):
    lease.take(None, ROW)
    takers = [store.lease_store() for _ in range(8)]
    new_rows = [replace(ROW, holder=f"taker-{number}", epoch=5) for number in range(len(takers))]

    with ThreadPoolExecutor(len(takers)) as threads:
        won = list(threads.map(lambda taker, new: taker.take(ROW, new), takers, new_rows))
        list(threads.map(lambda taker: taker.close(), takers))

    assert won.count(True) == 1
    assert lease.read() == new_rows[won.index(True)]
