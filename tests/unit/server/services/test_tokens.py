import pytest

from llmgw.schema.errors import Forbidden, Unauthorized
from llmgw.schema.key import AdminRole
from llmgw.server.services import tokens


async def test_a_token_is_known_by_its_secret(room):
    secret = await room.token(AdminRole.OPERATOR)
    token = tokens.identify(room.fleet, secret)
    assert token.role is AdminRole.OPERATOR
    assert secret.startswith(token.id)


@pytest.mark.parametrize(
    "spoil", [lambda secret: secret[:11], lambda secret: secret + "x", lambda secret: "", str.upper]
)
async def test_a_public_prefix_or_a_changed_secret_is_no_token(room, spoil):
    secret = await room.token(AdminRole.ADMIN)
    with pytest.raises(Unauthorized):
        tokens.identify(room.fleet, spoil(secret))


async def test_a_revoked_token_is_no_token(room):
    secret = await room.token(AdminRole.ADMIN)
    await room.revoke(secret)
    with pytest.raises(Unauthorized):
        tokens.identify(room.fleet, secret)
    assert tokens.still_valid(room.fleet, secret[:11]) is None


async def test_no_error_repeats_what_was_presented(room):
    with pytest.raises(Unauthorized) as caught:
        tokens.identify(room.fleet, "lt_AAAAAAAAveryverysecret")
    assert "verysecret" not in str(caught.value.body())


@pytest.mark.parametrize("have", list(AdminRole))
@pytest.mark.parametrize("needed", list(AdminRole))
async def test_a_role_includes_those_before_it(room, have, needed):
    token = tokens.identify(room.fleet, await room.token(have))
    if list(AdminRole).index(have) >= list(AdminRole).index(needed):
        tokens.require(token, needed)
        return
    with pytest.raises(Forbidden) as caught:
        tokens.require(token, needed)
    assert needed in caught.value.message
