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
