import pytest

from llmgw.gateway.alone import alone_start
from llmgw.schema.errors import InvalidInput


def start(**given):
    options = {
        "listen": "127.0.0.1:0",
        "routes": {"org/m": ("http://127.0.0.1:1", "http://127.0.0.1:2")},
        "engine_kind": "openai",
        "workers": 1,
        "key": None,
        "log_level": "warning",
    }
    return alone_start(**{**options, **given})


def test_a_fixed_view_without_limits_and_without_a_key():
    made = start()
    (route,) = made.view.routes.routes
    assert [replica.endpoint for replica in route.replicas] == ["http://127.0.0.1:1", "http://127.0.0.1:2"]
    assert {replica.slots for replica in route.replicas} == {None}
    assert (made.open_to_all, made.any_role, made.view.keys) == (True, True, None)


def test_a_key_is_asked_for_when_there_is_one_and_kept_as_a_hash():
    made = start(key="secret-of-mine")
    assert not made.open_to_all
    assert "secret-of-mine" not in str(made)


@pytest.mark.parametrize("wrong", [{"engine_kind": "ollama"}, {"routes": {"m": ("localhost:1",)}}])
def test_what_is_wrong_is_said_before_anything_starts(wrong):
    with pytest.raises(InvalidInput):
        start(**wrong)
