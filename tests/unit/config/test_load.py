from pathlib import Path

import pytest

from llmgw.config.agent import AgentConfig
from llmgw.config.load import load, parse
from llmgw.config.server import ServerConfig
from llmgw.schema.errors import InvalidInput

AGENT = 'data_dir = "/d"\nservers = ["127.0.0.1:8801"]\ntoken_file = "/t"\n'


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(InvalidInput) as caught:
        parse(ServerConfig, 'data_dir = "/d"\napi_listn = "127.0.0.1:1"\n', where="server.toml")
    assert "server.toml: unknown key 'api_listn'" in caught.value.message
    assert caught.value.hint == "did you mean 'api_listen'?"
    assert caught.value.field == "api_listn"


def test_an_unknown_key_within_a_table_is_refused_too():
    with pytest.raises(InvalidInput) as caught:
        parse(AgentConfig, AGENT + '[[fabrics]]\nname = "ib-a"\nhcs = ["mlx5_0"]\n', where="agent.toml")
    assert "fabrics[0]" in caught.value.message
    assert caught.value.hint == "did you mean 'hcas'?"


def test_a_fabric_without_a_name_is_refused_naming_the_place():
    with pytest.raises(InvalidInput, match="name"):
        parse(AgentConfig, AGENT + '[[fabrics]]\nhcas = ["mlx5_0"]\n', where="agent.toml")


def test_a_wrong_type_names_the_key():
    with pytest.raises(InvalidInput) as caught:
        parse(ServerConfig, 'data_dir = "/d"\npark_after = "five"\n', where="server.toml")
    assert caught.value.field == "park_after"


def test_text_that_is_not_toml_says_where():
    with pytest.raises(InvalidInput, match=r"server\.toml is not TOML.*line 1"):
        parse(ServerConfig, "data_dir = x\n", where="server.toml")


def test_an_absent_file_says_what_to_do(tmp_path: Path):
    with pytest.raises(InvalidInput) as caught:
        load(ServerConfig, tmp_path / "absent.toml")
    assert "No such file" in caught.value.message
    assert "config example" in (caught.value.hint or "")


@pytest.mark.parametrize("address", ["0.0.0.0:8800", "[::]:8800", "192.0.2.1:8800"])
def test_an_open_address_needs_tls_off_written_out(address: str):
    text = f'data_dir = "/d"\napi_listen = "{address}"\n'
    with pytest.raises(InvalidInput, match="without TLS"):
        parse(ServerConfig, text, where="server.toml")
    assert parse(ServerConfig, text + 'tls = "off"\n', where="server.toml").api_listen == address


def test_loopback_needs_nothing():
    for address in ("127.0.0.1:1", "localhost:1", "[::1]:1"):
        parse(ServerConfig, f'data_dir = "/d"\napi_listen = "{address}"\n', where="server.toml")


def test_an_address_without_a_port_is_refused():
    with pytest.raises(InvalidInput, match="is not an address"):
        parse(ServerConfig, 'data_dir = "/d"\napi_listen = "localhost"\n', where="server.toml")
