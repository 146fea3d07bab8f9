import msgspec
import pytest

from llmgw.schema.admin.token import CreateToken
from llmgw.schema.errors import Conflict, InvalidInput, NoLeader, NotFound, Unauthorized
from llmgw.schema.key import AdminRole
from llmgw.server.identity import public_id
from llmgw.server.services import admin_tokens, tokens

ACTOR = "lt_AAAAAAAA"


async def create(room, name="scraper", role=AdminRole.VIEWER):
    return await admin_tokens.create(room.fleet, room.clock, CreateToken(name=name, role=role), actor=ACTOR)


async def test_a_new_token_is_valid_in_its_role_and_only_its_hash_is_kept(room):
    made = await create(room)
    assert tokens.identify(room.fleet, made.secret).role is AdminRole.VIEWER
    shown = msgspec.json.encode(admin_tokens.all_tokens(room.fleet)).decode()
    stored = msgspec.json.encode(await room.store.load_admin_tokens()).decode()
    events = await room.store.load_events(limit=9)
    assert [event.kind for event in events] == ["token.created"]
    assert all(made.secret not in text for text in (shown, stored, str(events)))


async def test_a_revoked_token_stays_in_the_list_and_lets_nobody_in(room):
    made = await create(room)
    revoked = await admin_tokens.revoke(room.fleet, room.clock, made.token.id, actor=ACTOR)
    room.clock.advance(60)
    assert await admin_tokens.revoke(room.fleet, room.clock, made.token.id, actor=ACTOR) == revoked
    assert admin_tokens.all_tokens(room.fleet) == (revoked,)
    with pytest.raises(Unauthorized):
        tokens.identify(room.fleet, made.secret)


async def test_the_last_admins_token_cannot_be_revoked(room):
    first = await room.token(AdminRole.ADMIN)
    second = await create(room, "second", AdminRole.ADMIN)
    await admin_tokens.revoke(room.fleet, room.clock, second.token.id, actor=ACTOR)
    with pytest.raises(Conflict, match="last one with role admin"):
        await admin_tokens.revoke(room.fleet, room.clock, public_id(first), actor=ACTOR)
    assert tokens.identify(room.fleet, first)


async def test_an_unknown_token_cannot_be_revoked(room):
    with pytest.raises(NotFound):
        await admin_tokens.revoke(room.fleet, room.clock, "lt_BBBBBBBB", actor=ACTOR)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101])
async def test_names_are_checked(room, name):
    with pytest.raises(InvalidInput) as caught:
        await create(room, name)
    assert caught.value.field == "name"


async def test_a_standby_makes_no_tokens(room):
    room.lease.lose()
    with pytest.raises(NoLeader):
        await create(room)
