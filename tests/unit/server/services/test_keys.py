import msgspec
import pytest

from llmgw.schema.admin.key import CreateKey
from llmgw.schema.errors import InvalidInput, NoLeader, NotFound
from llmgw.server.identity import hash_secret
from llmgw.server.services import keys
from llmgw.testing.control_room import HASH_KEY


async def _create(room, **fields):
    return await keys.create(room.fleet, room.clock, CreateKey(**{"name": "team", **fields}), actor="lt_AAAAAAAA")


async def test_a_new_key_gives_its_secret_once_and_stores_its_hash_only(room):
    made = await _create(room)
    assert made.secret.startswith(made.key.id)
    (stored,) = await room.store.load_keys()
    assert stored.hash == hash_secret(HASH_KEY, made.secret)
    shown = msgspec.json.encode(keys.all_keys(room.fleet)).decode()
    assert made.secret not in shown
    assert stored.hash not in shown


async def test_no_event_holds_the_secret(room):
    made = await _create(room)
    events = await room.store.load_events(limit=9)
    assert [event.kind for event in events] == ["key.created"]
    assert made.secret not in str(events)


async def test_a_revoked_key_stays_in_the_list_and_is_revoked_once(room):
    made = await _create(room)
    revoked = await keys.revoke(room.fleet, room.clock, made.key.id, actor="lt_AAAAAAAA")
    room.clock.advance(60)
    again = await keys.revoke(room.fleet, room.clock, made.key.id, actor="lt_AAAAAAAA")
    assert revoked.revoked_at is not None
    assert again == revoked
    assert keys.all_keys(room.fleet) == (revoked,)


async def test_an_unknown_key_cannot_be_revoked(room):
    with pytest.raises(NotFound):
        await keys.revoke(room.fleet, room.clock, "lk_AAAAAAAA", actor="lt_AAAAAAAA")


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"name": ""}, "name"), ({"name": "  "}, "name"), ({"name": "a\nb"}, "name"), ({"project": "a b"}, "project")],
)
async def test_names_are_checked(room, fields, field):
    with pytest.raises(InvalidInput) as caught:
        await _create(room, **fields)
    assert caught.value.field == field


async def test_a_standby_makes_no_keys(room):
    room.lease.lose()
    with pytest.raises(NoLeader):
        await _create(room)
    assert await room.store.load_keys() == ()
