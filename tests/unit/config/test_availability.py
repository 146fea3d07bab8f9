import pytest

from llmgw.config.server import ServerConfig
from llmgw.schema.errors import InvalidInput

POSTGRES = "postgresql://llmgw@db1,db2/llmgw"


def config(**changes):
    return ServerConfig(data_dir="/var/lib/llmgw", **changes)


def test_patronis_of_a_postgresql_store_and_a_floating_address_are_taken():
    taken = config(
        store_url=POSTGRES, patroni=("http://db1:8008", "https://[fd00::2]:8008/"), floating_address="10.0.0.9"
    )
    assert taken.floating_address == "10.0.0.9"


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"store_url": POSTGRES, "patroni": ("db1:8008",)}, "patroni", "is not the root of Patroni's REST"),
        ({"store_url": POSTGRES, "patroni": ("http://db1/cluster",)}, "patroni", "is not the root of Patroni's REST"),
        ({"patroni": ("http://db1:8008",)}, "patroni", "a store that is not PostgreSQL"),
        (
            {"store_url": POSTGRES, "patroni": ("http://db1:8008",), "patroni_ca_file": "/ca.pem"},
            "patroni_ca_file",
            "without an https address",
        ),
        ({"floating_address": "10.0.0.9/24"}, "floating_address", "is no IP address"),
        ({"floating_address": "llm.example.org"}, "floating_address", "is no IP address"),
    ],
)
def test_what_cannot_be_or_says_nothing_is_refused_by_its_key(changes, field, said):
    with pytest.raises(InvalidInput, match=said) as refused:
        config(**changes)
    assert refused.value.field == field
