import pytest

from llmgw.gateway.authenticate import Authenticator
from llmgw.gateway.errors import ApiError
from llmgw.relay.request import Request
from llmgw.server.identity import hash_secret
from llmgw.testing.gateway_room import HASH_KEY, KEYS, SECRET


def request(**headers: str) -> Request:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request(method="GET", path="/", query="", headers=pairs)


@pytest.fixture
def authenticator() -> Authenticator:
    made = Authenticator()
    made.update(KEYS)
    return made


def test_keys_are_hashed_as_the_control_plane_hashes_them():
    assert KEYS.keys[0].hash == hash_secret(HASH_KEY, SECRET)


@pytest.mark.parametrize(
    "headers",
    [{"authorization": f"Bearer {SECRET}"}, {"authorization": f"bearer  {SECRET} "}, {"x_api_key": SECRET}],
)
def test_a_valid_key_lets_in_however_it_is_sent(authenticator, headers):
    for _ in range(2):
        assert authenticator.check(request(**headers)).id == "lk_ABCDEFGH"


@pytest.mark.parametrize(
    "headers",
    [{}, {"authorization": ""}, {"authorization": "Bearer "}, {"authorization": f"Basic {SECRET}"}, {"x_api_key": "x"}],
)
def test_anything_else_does_not(authenticator, headers):
    with pytest.raises(ApiError) as caught:
        authenticator.check(request(**headers))
    assert caught.value.status == 401


def test_a_key_that_was_let_in_before_is_refused_once_it_is_gone(authenticator):
    authenticator.check(request(x_api_key=SECRET))
    authenticator.update(type(KEYS)(version=2, hash_key=KEYS.hash_key))
    with pytest.raises(ApiError):
        authenticator.check(request(x_api_key=SECRET))


def test_before_any_keys_are_known_it_is_not_the_clients_fault():
    with pytest.raises(ApiError) as caught:
        Authenticator().check(request(x_api_key=SECRET))
    assert caught.value.status == 503


def test_a_gateway_open_to_all_asks_nobody():
    assert Authenticator(open_to_all=True).check(request()) is None
