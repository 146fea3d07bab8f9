import pytest

from llmgw.ports import AppendEvent
from llmgw.schema.errors import InvalidInput
from llmgw.schema.event import Event, Severity
from llmgw.server.services import events


@pytest.fixture
async def told(room):
    for number in range(5):
        event = Event(at=room.clock.now(), kind="test", severity=Severity.INFO, message=str(number))
        await room.fleet.write([AppendEvent(event=event)])
    return room


async def test_events_come_newest_first_page_by_page(told):
    seen, before = [], None
    while True:
        page = await events.recent(told.store, limit=2, before=before)
        seen += [event.message for event in page.events]
        before = page.next
        if before is None:
            break
    assert seen == ["4", "3", "2", "1", "0"]


async def test_a_page_that_ends_exactly_says_there_is_no_more(told):
    assert (await events.recent(told.store, limit=5)).next is None


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_a_limit_out_of_range_is_refused(told, limit):
    with pytest.raises(InvalidInput) as caught:
        await events.recent(told.store, limit=limit)
    assert caught.value.field == "limit"
