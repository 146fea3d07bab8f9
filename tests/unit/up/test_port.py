import os
import socket

import pytest

from llmgw.schema.errors import Conflict
from llmgw.up.port import free_or_other, is_free, require_free


@pytest.fixture
def taken():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        yield listener.getsockname()[1]


def test_a_taken_port_is_named_with_its_holder_and_the_option(taken: int):
    with pytest.raises(Conflict) as caught:
        require_free(taken, what="gateway", option="--gateway-port")
    assert f"port {taken} for the gateway is taken by" in caught.value.message
    assert f"(pid {os.getpid()})" in caught.value.message
    assert "--gateway-port" in (caught.value.hint or "")


def test_another_port_is_found_for_a_taken_one(taken: int):
    other = free_or_other(taken)
    assert other != taken
    assert is_free(other)


def test_a_free_port_is_kept(taken: int):
    other = free_or_other(taken)
    assert free_or_other(other) == other
