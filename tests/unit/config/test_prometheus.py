import pytest

from llmgw.config.load import parse
from llmgw.config.server import ServerConfig
from llmgw.schema.errors import InvalidInput


def read(text):
    return parse(ServerConfig, f'data_dir = "/d"\n{text}', where="server.toml")


def test_every_key_is_read_from_a_file():
    config = read(
        'prometheus_url = "https://metrics.example.org/prometheus"\nprometheus_token_file = "/t"\n'
        'prometheus_ca_file = "/c"\nprometheus_labels = { cluster = "a" }\n'
    )
    assert config.prometheus_url == "https://metrics.example.org/prometheus"
    assert (config.prometheus_token_file, config.prometheus_ca_file) == ("/t", "/c")
    assert config.prometheus_labels == {"cluster": "a"}


def test_the_token_may_go_to_this_machine_in_the_clear():
    assert read('prometheus_url = "http://127.0.0.1:9090"\nprometheus_token_file = "/t"').prometheus_token_file == "/t"


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ('prometheus_url = "127.0.0.1:9090"', "prometheus_url", "is not an address"),
        ('prometheus_url = "ftp://host"', "prometheus_url", "is not an address"),
        ('prometheus_url = "http://"', "prometheus_url", "is not an address"),
        ('prometheus_url = "http://host:99999"', "prometheus_url", "is not an address"),
        ('prometheus_url = "http://[::1"', "prometheus_url", "is not an address"),
        ('prometheus_url = "http://host/?q=1"', "prometheus_url", "is not an address"),
        ('prometheus_url = "http://me:hunter2@host"', "prometheus_url", "holds a user or password"),
        ('prometheus_url = "http://host"\nprometheus_token_file = "/t"', "prometheus_token_file", "in the clear"),
        ('prometheus_url = "http://host"\nprometheus_ca_file = "/c"', "prometheus_ca_file", "without TLS"),
        ('prometheus_token_file = "/t"', "prometheus_token_file", "nothing without prometheus_url"),
        ('prometheus_labels = { a = "b" }', "prometheus_labels", "nothing without prometheus_url"),
        ('prometheus_url = "http://host"\nprometheus_labels = { "a-b" = "c" }', "prometheus_labels", "name of a label"),
    ],
)
def test_what_cannot_be_meant_is_refused_naming_file_and_key(text, field, words):
    with pytest.raises(InvalidInput) as caught:
        read(text)
    assert caught.value.field == field
    assert words in caught.value.message
    assert caught.value.message.startswith("server.toml: ")
    assert caught.value.hint
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"
