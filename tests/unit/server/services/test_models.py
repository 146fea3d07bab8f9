import asyncio

import pytest

from llmgw.schema.admin.model import ChangeModel, ScaleModel, ServeModel
from llmgw.schema.errors import Conflict, NoLeader, NotFound, StoreUnavailable
from llmgw.schema.model import ModelStatus, Parked
from llmgw.server.services import models
from llmgw.testing.control_room import CONTEXT

CHAT = ServeModel(name="org/chat", source="/models/chat.gguf")


async def _serve(room, request=CHAT):
    return await models.serve(room.fleet, room.clock, request, actor="lt_AAAAAAAA")


async def test_a_served_model_is_stored_and_told_with_who_did_it(room):
    row = await _serve(room)
    assert (row.name, row.desired, row.ready, row.revision) == ("org/chat", 1, 0, 1)
    assert (await room.store.load_fleet()).models[0].name == "org/chat"
    (event,) = await room.store.load_events(limit=1)
    assert (event.kind, event.model, event.actor) == ("model.created", "org/chat", "lt_AAAAAAAA")


async def test_a_row_shows_what_was_written_and_what_the_adapter_made_of_it(room):
    row = await _serve(room)
    assert row.profile.context is None
    assert row.resolved.context == CONTEXT


async def test_a_taken_name_is_a_conflict_and_changes_nothing(room):
    await _serve(room)
    with pytest.raises(Conflict) as caught:
        await _serve(room, ServeModel(name="org/chat", source="/other.gguf"))
    assert caught.value.hint
    assert models.one_model(room.fleet, "org/chat").source == "/models/chat.gguf"


async def test_of_two_who_serve_one_name_at_once_one_wins(room):
    results = await asyncio.gather(_serve(room), _serve(room), return_exceptions=True)
    assert sum(isinstance(result, Conflict) for result in results) == 1


async def test_nothing_is_changed_on_a_control_plane_that_does_not_lead(room):
    room.lease.lose("control-2")
    with pytest.raises(NoLeader):
        await _serve(room)
    assert (await room.store.load_fleet()).models == ()


async def test_a_store_that_is_away_is_told(room):
    room.store.away = True
    with pytest.raises(StoreUnavailable):
        await _serve(room)


async def test_scaling_wakes_the_reconciler_and_is_told(room):
    await _serve(room)
    woken = []
    room.fleet.wakes.subscribe(lambda: woken.append(True))
    row = await models.scale(room.fleet, room.clock, "org/chat", ScaleModel(replicas=3), actor="lt_AAAAAAAA")
    assert (row.min, row.max, row.desired, row.revision) == (3, 3, 3, 1)
    assert woken
    (event,) = await room.store.load_events(limit=1)
    assert event.message == "model org/chat: scaled from 1 to 3 replicas"


async def test_a_change_to_the_same_writes_nothing(room):
    await _serve(room)
    await models.change(room.fleet, room.clock, "org/chat", ChangeModel(min=1), actor="lt_AAAAAAAA")
    (event,) = await room.store.load_events(limit=1)
    assert event.kind == "model.created"


async def test_unparking_clears_the_failures_and_is_told_once(room):
    await _serve(room)
    parked = Parked(failures=5, reason="bad flag", since=room.clock.now())
    await room.put_status(ModelStatus(model="org/chat", failures=5, last_failure="bad flag", parked=parked))
    row = await models.unpark(room.fleet, room.clock, "org/chat", actor="lt_AAAAAAAA")
    assert (row.state, row.failures) == ("short", 0)
    again = await models.unpark(room.fleet, room.clock, "org/chat", actor="lt_AAAAAAAA")
    assert again == row
    kinds = [event.kind for event in await room.store.load_events(limit=9)]
    assert kinds.count("model.unparked") == 1


async def test_a_removed_model_is_gone_with_its_status(room):
    await _serve(room)
    await room.put_status(ModelStatus(model="org/chat", failures=2))
    await models.remove(room.fleet, room.clock, "org/chat", actor="lt_AAAAAAAA")
    rows = await room.store.load_fleet()
    assert (rows.models, rows.statuses) == ((), ())


@pytest.mark.parametrize(
    "act",
    [
        lambda room: models.change(room.fleet, room.clock, "x", ChangeModel(min=1), actor="a"),
        lambda room: models.scale(room.fleet, room.clock, "x", ScaleModel(replicas=1), actor="a"),
        lambda room: models.unpark(room.fleet, room.clock, "x", actor="a"),
        lambda room: models.remove(room.fleet, room.clock, "x", actor="a"),
    ],
)
async def test_what_is_not_there_cannot_be_changed(room, act):
    with pytest.raises(NotFound):
        await act(room)
    assert await room.store.load_events(limit=1) == ()
