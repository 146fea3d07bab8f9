import pytest

from llmgw.ports import PutSetting
from llmgw.schema.errors import StoreFull
from llmgw.schema.lease import LeaseStatus, Standing
from llmgw.server.services.summary import summary


async def test_a_fleet_whose_store_answers_says_who_leads_and_no_more(room):
    found = summary(room.fleet, version="1")
    assert (found.leader, found.epoch, found.store_error) == ("control-1", 1, None)


async def test_a_store_that_is_away_is_told(room, monkeypatch):
    lapsed = LeaseStatus(standing=Standing.LAPSED, epoch=1, store_problem="no answer to lease_renew within 1 s")
    monkeypatch.setattr(room.lease, "status", lambda: lapsed)
    found = summary(room.fleet, version="1")
    assert (found.leader, found.store_error) == (None, "no answer to lease_renew within 1 s")


async def test_a_store_with_room_for_the_lease_and_nothing_else_is_told_for_a_minute_and_until_a_write_succeeds(
    room, monkeypatch
):
    put = PutSetting(name="a", value="b")
    writer = room.store.leader(room.lease.fence())

    async def full(_writes):
        raise StoreFull("the store's disk is full")

    monkeypatch.setattr(type(writer), "apply", lambda _, writes: full(writes))
    with pytest.raises(StoreFull):
        await room.fleet.write([put])
    assert summary(room.fleet, version="1").store_error == "the store's disk is full"
    assert summary(room.fleet, version="1").leader == "control-1"
    room.clock.advance(61)
    assert summary(room.fleet, version="1").store_error is None
    with pytest.raises(StoreFull):
        await room.fleet.write([put])
    monkeypatch.undo()
    await room.fleet.write([put])
    assert summary(room.fleet, version="1").store_error is None
