"""The agent's configuration file: every documented key is bound, and none that is misspelt is taken silently."""

import re
from pathlib import Path

import pytest

from llmgw.config.agent import AgentConfig
from llmgw.config.load import load
from llmgw.schema.errors import InvalidInput

DOCUMENTED = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"
KEYS = """
data_dir = "/var/lib/there"
servers = ["cp-1:8801", "[fd00::1]:8801"]
token_file = "/etc/llmgw/token"
node_id = "n17"
address = "10.0.0.17"
labels = { rack = "b2", site = "east" }
weights_dirs = ["/srv/models", "/nfs/models"]
digest_mib_per_s = 25
door_listen = "127.0.0.1:9802"
heartbeat_s = 2.5
discover_s = 45
start_timeout_s = 900
stop_grace_s = 0
engine_verbosity = 3
log_level = "debug"
tls = "off"
log_format = "json"
"""
TABLES = """
[[fabrics]]
name = "ib-a"
hcas = ["mlx5_0", "mlx5_1:1"]
rate_gbps = 200
interface = "ib0"
address = "10.1.0.17"

[[fabrics]]
name = "storage"

[[devices]]
id = "GPU-7"
index = 7
class = "h100-80gb"
memory_bytes = 85899345920
numa_node = 1
pool = "p0"
problem = "fan"
"""
WHOLE = KEYS + TABLES
WRITTEN = sorted(set(re.findall(r"^(?:\[\[)?(\w+)", WHOLE, re.MULTILINE)))


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "agent.toml"
        path.write_text(text)
        return path

    return write


def refusal(path):
    with pytest.raises(InvalidInput) as caught:
        load(AgentConfig, path)
    return caught.value


def test_every_key_that_is_written_is_bound(file):
    config = load(AgentConfig, file(WHOLE))
    assert config.data_dir == "/var/lib/there"
    assert config.servers == ("cp-1:8801", "[fd00::1]:8801")
    assert config.token_file == "/etc/llmgw/token"
    assert config.node_id == "n17"
    assert config.address == "10.0.0.17"
    assert config.labels == {"rack": "b2", "site": "east"}
    assert config.weights_dirs == ("/srv/models", "/nfs/models")
    assert config.digest_mib_per_s == 25
    assert config.door_listen == "127.0.0.1:9802"
    assert (config.heartbeat_s, config.discover_s, config.start_timeout_s) == (2.5, 45.0, 900.0)
    assert (config.stop_grace_s, config.engine_verbosity) == (0.0, 3)
    assert (config.log_level, config.log_format) == ("debug", "json")
    first, second = config.fabrics
    assert (first.name, first.hcas, first.rate_gbps) == ("ib-a", ("mlx5_0", "mlx5_1:1"), 200.0)
    assert (first.interface, first.address) == ("ib0", "10.1.0.17")
    assert (second.name, second.hcas, second.rate_gbps) == ("storage", (), None)
    (device,) = config.devices
    assert (device.id, device.index, device.device_class) == ("GPU-7", 7, "h100-80gb")
    assert (device.memory_bytes, device.numa_node, device.pool, device.problem) == (85899345920, 1, "p0", "fan")


def test_the_file_above_has_every_documented_key():
    section = DOCUMENTED.read_text().split("## llmgw agent")[1].split("\n## ")[0]
    documented = set(re.findall(r"^(?:# )?(?:\[\[)?(\w+)(?: = |\]\])", section, re.MULTILINE))
    assert documented <= set(WRITTEN)
    assert {"fabrics", "hcas", "rate_gbps", "interface", "weights_dirs", "discover_s"} <= documented


@pytest.mark.parametrize("key", WRITTEN)
def test_a_key_that_is_misspelt_is_refused_with_the_right_one(file, key):
    text = re.sub(rf"^(\[\[)?{key}\b", rf"\g<1>{key}x", WHOLE, flags=re.MULTILINE)
    path = file(text)
    error = refusal(path)
    assert error.message.startswith(f"{path}: ")
    assert f"unknown key '{key}x'" in error.message
    assert error.hint == f"did you mean {key!r}?"


def test_a_fabric_without_a_name_is_refused_quoting_what_was_written(file):
    path = file(KEYS + '[[fabrics]]\nname = "ib-a"\n\n[[fabrics]]\nhcas = ["mlx5_3"]\nrate_gbps = 100\n')
    error = refusal(path)
    assert error.message == (
        f"{path}: fabrics[1]: object missing required field `name`; written there: hcas = ['mlx5_3'], rate_gbps = 100"
    )
    assert refusal(file(KEYS + "[[fabrics]]\n")).message.endswith("written there: nothing")


def test_a_single_table_instead_of_a_list_of_them_says_how_to_write_it(file):
    error = refusal(file(KEYS + '[fabrics]\nname = "ib-a"\n'))
    assert "fabrics: expected `array`, got `object`" in error.message
    assert error.hint == "write [[fabrics]], with two brackets, once for each"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('name = ""', "fabrics[0].name = '' is no name"),
        ('name = "ib a"', "fabrics[0].name = 'ib a' is no name"),
        ('name = "ib-a"\nhcas = ["mlx5_0,mlx5_1"]', "fabrics[0].hcas = 'mlx5_0,mlx5_1' is no adapter"),
        ('name = "ib-a"\nhcas = ["=mlx5_0"]', "fabrics[0].hcas = '=mlx5_0' is no adapter"),
        ('name = "ib-a"\nhcas = "mlx5_0"', "fabrics[0].hcas: expected `array`, got `str`"),
        ('name = "ib-a"\nhcas = ["mlx5_0", "mlx5_0"]', "fabrics[0].hcas = 'mlx5_0' is there for 'ib-a' already"),
        ('name = "ib-a"\nrate_gbps = 0', "fabrics[0].rate_gbps: expected `float` > 0"),
        ('name = "ib-a"\nrate_gbps = "400"', "fabrics[0].rate_gbps: expected `float | null`, got `str`"),
        ('name = "ib-a"\ninterface = "^ib"', "fabrics[0].interface = '^ib' is no interface"),
        ('name = "ib-a"\naddress = "10.1.0"', "fabrics[0].address = '10.1.0' is no IP address"),
        ('name = "ib-a"\n[[fabrics]]\nname = "ib-a"', "fabrics[1].name = 'ib-a' is there twice"),
        (
            'name = "ib-a"\nhcas = ["mlx5_0"]\n[[fabrics]]\nname = "ib-b"\nhcas = ["mlx5_0"]',
            "fabrics[1].hcas = 'mlx5_0' is there for 'ib-a' already",
        ),
    ],
)
def test_what_no_fabric_can_be_is_refused_quoting_it(file, table, words):
    path = file(f"{KEYS}[[fabrics]]\n{table}\n")
    error = refusal(path)
    assert str(path) in error.message
    assert words in error.message


def test_a_token_in_another_kind_of_table_is_never_quoted(tmp_path):
    from llmgw.config.contexts import read_contexts

    path = tmp_path / "contexts.toml"
    path.write_text('[contexts.a]\ntoken = "lt_secret"\n')
    with pytest.raises(InvalidInput) as caught:
        read_contexts(path)
    assert "lt_secret" not in f"{caught.value.message} {caught.value.hint}"
