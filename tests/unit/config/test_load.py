from pathlib import Path

import pytest

from llmgw.config.agent import AgentConfig
from llmgw.config.gateway import GatewayConfig
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


def test_a_wrong_type_names_file_and_key():
    with pytest.raises(InvalidInput) as caught:
        parse(ServerConfig, 'data_dir = "/d"\npark_after = "five"\n', where="server.toml")
    assert caught.value.message == "server.toml: park_after: expected `int`, got `str`"
    assert caught.value.field == "park_after"


def test_a_word_that_is_none_of_those_allowed_names_them():
    with pytest.raises(InvalidInput) as caught:
        parse(ServerConfig, 'data_dir = "/d"\nlog_level = "loud"\n', where="server.toml")
    assert caught.value.field == "log_level"
    assert caught.value.allowed == ("debug", "info", "warning", "error")
    assert caught.value.hint == "write debug or info or warning or error"


GATEWAY = 'data_dir = "/d"\ncontrol_socket = "/s"\n'
SERVER = 'data_dir = "/d"\n'


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (GatewayConfig, GATEWAY + "workers = 0", "workers: expected `int` >= 1"),
        (GatewayConfig, GATEWAY + "workers = 2.5", "workers: expected `int`, got `float`"),
        (GatewayConfig, GATEWAY + "max_body_bytes = -1", "max_body_bytes: expected `int` >= 1024"),
        (GatewayConfig, GATEWAY + "idle_timeout_s = nan", "idle_timeout_s: expected `float` > 0"),
        (GatewayConfig, GATEWAY + "idle_timeout_s = inf", "idle_timeout_s: expected `float` <="),
        (GatewayConfig, GATEWAY + 'listen = "127.0.0.1:70000"', "is not an address"),
        (AgentConfig, AGENT + "heartbeat_s = 0", "heartbeat_s: expected `float` > 0"),
        (AgentConfig, AGENT + "stop_grace_s = -1", "stop_grace_s: expected `float` >= 0"),
        (AgentConfig, AGENT + 'door_listen = "here"', "door_listen = 'here' is not an address"),
        (AgentConfig, AGENT.replace("127.0.0.1:8801", "localhost"), "servers = 'localhost' is not an address"),
        (AgentConfig, AGENT.replace('"127.0.0.1:8801"', ""), "servers is empty"),
        (AgentConfig, AGENT + 'labels = "rack=a1"', "labels: expected `object`, got `str`"),
        (ServerConfig, SERVER + "park_after = 0", "park_after: expected `int` >= 1"),
        (ServerConfig, SERVER + 'backoff_base_s = "2 s"', "backoff_base_s: expected `float`, got `str`"),
        (ServerConfig, SERVER + "unreachable_after_s = 2", "unreachable_after_s: expected `float` >= 3"),
        (ServerConfig, SERVER + "lost_after_s = 20", "lost_after_s = 20 is too soon after unreachable_after_s = 15"),
        (ServerConfig, SERVER + "lost_grace_s = 5", "lost_grace_s: expected `float` >= 10"),
        (ServerConfig, "", "missing required field `data_dir`"),
        (ServerConfig, SERVER + SERVER, "is not TOML"),
    ],
)
def test_a_value_that_cannot_be_is_refused_naming_file_and_key(kind, text, words):
    with pytest.raises(InvalidInput) as caught:
        parse(kind, text, where="some.toml")
    assert "some.toml" in caught.value.message
    assert words in caught.value.message


def test_a_wait_may_be_none_and_a_count_large():
    assert parse(ServerConfig, SERVER + "backoff_base_s = 0\nbackoff_max_s = 0.0", where="x").backoff_base_s == 0
    assert parse(GatewayConfig, GATEWAY + "queue_per_model = 0\nmax_connections = 100000", where="x").drain_s == 30


def test_text_that_is_not_toml_says_where():
    with pytest.raises(InvalidInput, match=r"server\.toml is not TOML.*line 1"):
        parse(ServerConfig, "data_dir = x\n", where="server.toml")


def test_what_is_no_text_or_no_file_is_refused(tmp_path: Path):
    (tmp_path / "binary").write_bytes(b"\x7fELF\x02\x01\x01\x00\xff\xfe\xfd")
    with pytest.raises(InvalidInput, match=r"binary is not text in UTF-8 \(byte 8\)"):
        load(ServerConfig, tmp_path / "binary")
    with pytest.raises(InvalidInput, match="Is a directory"):
        load(ServerConfig, tmp_path)


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
