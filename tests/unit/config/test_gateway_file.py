"""The gateway's configuration file: what belongs together, and what says nothing alone."""

import pytest

from llmgw.config.gateway import GatewayConfig
from llmgw.config.load import load
from llmgw.config.tls import Tls
from llmgw.schema.errors import InvalidInput

DATA = 'data_dir = "/d"\n'
LOCAL = DATA + 'control_socket = "/s"\n'
FAR = DATA + 'tls = "on"\ncontrol = ["cp-1:8804", "[fd00::1]:8804"]\n'


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "gateway.toml"
        path.write_text(text)
        return load(GatewayConfig, path)

    return read


def test_every_key_is_bound(read):
    config = read(
        FAR + 'name = "gw-7"\nlisten = "10.0.0.7:443"\ncertificate_file = "/c.pem"\nkey_file = "/k.pem"\n'
        'peer_listen = "0.0.0.0:8805"\npeer_address = "10.0.0.7:8805"\n'
    )

    assert (config.tls, config.control, config.control_socket) == (Tls.ON, ("cp-1:8804", "[fd00::1]:8804"), None)
    assert (config.name, config.certificate_file, config.key_file) == ("gw-7", "/c.pem", "/k.pem")
    assert (config.peer_listen, config.peer_address) == ("0.0.0.0:8805", "10.0.0.7:8805")


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        (DATA, "control_socket", "exactly one of control_socket and control"),
        (LOCAL + 'tls = "on"\ncontrol = ["h:1"]\n', "control_socket", "exactly one of control_socket and control"),
        (DATA + 'control = ["h:1"]\n', "tls", "reached with TLS only"),
        (DATA + 'tls = "on"\ncontrol = ["h"]\n', "control", "is not an address"),
        (LOCAL + 'certificate_file = "/c"\ntls = "on"\n', "key_file", "belong together"),
        (LOCAL + 'key_file = "/c"\ntls = "on"\n', "certificate_file", "belong together"),
        (LOCAL + 'certificate_file = "/c"\nkey_file = "/k"\n', "tls", "says nothing without"),
        (LOCAL + 'peer_address = "h:1"\n', "peer_listen", "says nothing without peer_listen"),
        (LOCAL + 'peer_listen = "10.0.0.1:1"\n', "peer_listen", "reachable from other machines without TLS"),
        (LOCAL + 'tls = "on"\npeer_listen = "0.0.0.0:1"\n', "peer_address", "where other gateways reach this one"),
        (LOCAL + 'listen = "10.0.0.1:1"\n', "listen", "reachable from other machines without TLS"),
    ],
)
def test_what_does_not_fit_together_is_refused_naming_the_key(read, text, field, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        read(text)
    assert caught.value.field == field


def test_with_tls_any_address_is_listened_on(read):
    assert read(LOCAL + 'tls = "on"\nlisten = "0.0.0.0:443"\n').listen == "0.0.0.0:443"
