import pytest
from click.testing import CliRunner

from llmgw.cli.config import config
from llmgw.config.load import parse
from llmgw.install.plan import ClusterPlan, files
from llmgw.schema.errors import InvalidInput

FLOATING = 'floating = { address = "10.0.0.100", interface = "eth0" }\n'
HOSTS = "".join(f'[[hosts]]\nname = "cp{n}"\naddress = "10.0.0.{n}"\n' for n in (1, 2, 3))
TEXT = f'name = "blue"\n{FLOATING}postgres = {{ network = "10.0.0.0/24" }}\n{HOSTS}'


def plan(text=TEXT):
    return parse(ClusterPlan, text, where="cluster.toml")


def test_each_host_gets_files_of_its_own():
    first, second = files(plan(), "cp1"), files(plan(), "cp2")
    assert first.keys() == second.keys()
    assert first["/etc/llmgw/patroni.yml"] != second["/etc/llmgw/patroni.yml"]
    assert 'floating_address = "10.0.0.100"' in first["/etc/llmgw/server.toml (a part)"]


def test_without_a_floating_address_there_is_nothing_of_keepalived():
    assert not [path for path in files(plan(TEXT.replace(FLOATING, "")), "cp1") if "keepalived" in path]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT.replace("postgres", "postgresx"), "unknown key 'postgresx'"),
        (
            TEXT.replace('interface = "eth0"', 'interfase = "eth0"'),
            "floating: object missing required field .interface",
        ),
        (TEXT.replace("10.0.0.100", "10.0.0.100/24"), "is no IP address"),
        (TEXT.replace("10.0.0.2", "10.0.0.1"), "two hosts have the same address"),
    ],
)
def test_what_is_written_wrong_is_named(text, said):
    with pytest.raises(InvalidInput, match=said):
        files(plan(text), "cp1")


def test_the_command_prints_all_files_or_one(tmp_path):
    file = tmp_path / "cluster.toml"
    file.write_text(TEXT)
    words = ["render", "--file", str(file), "--host", "cp2"]
    everything = CliRunner().invoke(config, words)
    assert everything.exit_code == 0
    assert "### /etc/llmgw/keepalived.conf\n# Written by llmgw for cp2, cluster blue." in everything.output
    one = CliRunner().invoke(config, [*words, "/etc/llmgw/etcd.env"])
    assert one.output.splitlines()[1] == "ETCD_NAME=cp2"


def test_an_unknown_host_or_path_is_answered_with_those_there_are():
    with pytest.raises(InvalidInput, match="'cp9' is no host"):
        files(plan(), "cp9")
