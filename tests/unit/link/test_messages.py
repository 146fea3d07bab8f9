import msgspec
import pytest

from llmgw.link.messages import Messages
from llmgw.schema.link import Ping, ServerMessage, Welcome


@pytest.fixture
def messages():
    return Messages(msgspec.json.Decoder(ServerMessage))


def test_a_message_is_read_whatever_it_says_beside_what_we_know(messages):
    read = messages.read('{"type":"welcome","epoch":3,"holder":"h","mood":{"good":true}}')
    assert read == Welcome(epoch=3, holder="h")


def test_a_message_of_a_newer_release_is_no_more_than_a_sign_of_life(messages):
    assert messages.read(b'{"type":"dance","epoch":"no number"}') == Ping()


@pytest.mark.parametrize("data", [b"", b"nope", b"[]", b"{}", b'{"type":3}', b'{"type":"welcome"}', b"\xff"])
def test_what_is_no_message_is_refused(messages, data):
    with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError)):
        messages.read(data)
