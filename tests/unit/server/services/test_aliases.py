import pytest

from llmgw.schema.admin.alias import PutAlias, PutShare
from llmgw.schema.admin.model import ServeModel
from llmgw.schema.errors import Conflict, InvalidInput, NotFound
from llmgw.schema.model import Role
from llmgw.server.services import aliases, models


@pytest.fixture
async def fleet(room):
    for name, role in (("old", Role.CHAT), ("new", Role.CHAT), ("vectors", Role.EMBED)):
        asked = ServeModel(name=name, source=f"/m/{name}.gguf", role=role)
        await models.serve(room.fleet, room.clock, asked, actor="test")
    return room


def asked(*shares, fallbacks=()):
    return PutAlias(shares=tuple(PutShare(model=model, weight=weight) for model, weight in shares), fallbacks=fallbacks)


async def put(room, request, name="team/chat"):
    return await aliases.put(room.fleet, room.clock, name, request, actor="lt_AAAAAAAA")


async def test_an_alias_is_made_changed_and_removed_and_revisions_grow_only_with_changes(fleet):
    first = await put(fleet, asked(("old", 9), ("new", 1)))
    assert (first.revision, aliases.told(first)) == (1, "old 90%, new 10%")
    assert (await put(fleet, asked(("old", 9), ("new", 1)))).revision == 1
    second = await put(fleet, asked(("new", 1), fallbacks=("old",)))
    assert (second.revision, aliases.told(second)) == (2, "new 100%, else old")
    assert await fleet.store.load_aliases() == fleet.fleet.aliases == (second,)
    await aliases.remove(fleet.fleet, fleet.clock, "team/chat", actor="lt_AAAAAAAA")
    assert aliases.all_aliases(fleet.fleet).aliases == ()
    kinds = [event.kind for event in await fleet.store.load_events(limit=3)]
    assert kinds == ["alias.removed", "alias.changed", "alias.changed"]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (asked(), "shares"),
        (asked(("old", 0)), "shares[0].weight"),
        (asked(("old", 1), ("new", float("inf"))), "shares[1].weight"),
        (asked(("old", float("nan"))), "shares[0].weight"),
        (asked(("nobody", 1)), "shares[0].model"),
        (asked(("old", 1), fallbacks=("nobody",)), "fallbacks[0]"),
        (asked(("old", 1), ("old", 1)), "shares"),
        (asked(("old", 1), fallbacks=("old",)), "shares"),
        (asked(("old", 1), ("vectors", 1)), "shares"),
        (asked(("old", 1), fallbacks=("new",) * 9), "fallbacks"),
    ],
)
async def test_what_is_wrong_is_named_and_nothing_changes(fleet, request_, field):
    with pytest.raises(InvalidInput) as caught:
        await put(fleet, request_)
    assert caught.value.field == field
    assert caught.value.allowed
    assert fleet.fleet.aliases == ()


async def test_a_name_is_a_models_or_an_aliass_never_both(fleet):
    with pytest.raises(Conflict):
        await put(fleet, asked(("new", 1)), name="old")
    await put(fleet, asked(("new", 1)), name="chat")
    with pytest.raises(Conflict, match="alias"):
        await models.serve(fleet.fleet, fleet.clock, ServeModel(name="chat", source="/m/c.gguf"), actor="test")
    with pytest.raises(InvalidInput):
        await put(fleet, asked(("new", 1)), name="../up")
    with pytest.raises(NotFound):
        await aliases.remove(fleet.fleet, fleet.clock, "nobody", actor="test")
