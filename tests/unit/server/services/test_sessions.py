import pytest

from llmgw.schema.errors import Unauthorized
from llmgw.schema.key import AdminRole
from llmgw.server.services import sessions
from llmgw.server.services.sessions import Sessions


@pytest.fixture
def opened(room):
    return Sessions(room.fleet, room.clock)


async def test_a_login_gives_a_session_that_knows_its_token(room, opened):
    secret = await room.token(AdminRole.VIEWER)
    session = opened.open(secret)
    token = opened.token(session)
    assert token is not None
    assert token.id == secret[:11]
    assert secret not in session


async def test_a_wrong_token_gives_no_session(opened):
    with pytest.raises(Unauthorized):
        opened.open("lt_AAAAAAAAwrong")


async def test_two_logins_are_two_sessions(room, opened):
    secret = await room.token(AdminRole.VIEWER)
    first, second = opened.open(secret), opened.open(secret)
    opened.end(first)
    assert opened.token(first) is None
    assert opened.token(second) is not None


async def test_a_session_ends_when_its_token_is_revoked(room, opened):
    secret = await room.token(AdminRole.VIEWER)
    session = opened.open(secret)
    await room.revoke(secret)
    assert opened.token(session) is None


async def test_a_session_ends_when_it_is_not_used(room, opened):
    session = opened.open(await room.token(AdminRole.VIEWER))
    room.clock.advance(sessions.IDLE_S)
    assert opened.token(session) is not None
    room.clock.advance(sessions.IDLE_S + 1)
    assert opened.token(session) is None


async def test_a_session_ends_for_good_however_much_it_is_used(room, opened):
    session = opened.open(await room.token(AdminRole.VIEWER))
    while room.clock.monotonic() < 7_919.5 + sessions.LONGEST_S:
        assert opened.token(session) is not None
        room.clock.advance(sessions.IDLE_S / 2)
    room.clock.advance(1)
    assert opened.token(session) is None


async def test_logins_do_not_fill_the_memory(room, opened):
    secret = await room.token(AdminRole.VIEWER)
    first = opened.open(secret)
    room.clock.advance(1)
    for _ in range(sessions.MOST):
        last = opened.open(secret)
    assert opened.token(first) is None
    assert opened.token(last) is not None


def test_a_made_up_session_is_nobodys(opened):
    assert opened.token("made up") is None
