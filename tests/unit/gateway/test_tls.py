import pytest

from llmgw.config.gateway import GatewayConfig
from llmgw.config.tls import Tls
from llmgw.gateway.tls import gateway_tls
from llmgw.schema.errors import InvalidInput
from llmgw.schema.identity import Part
from llmgw.testing.identities import Cluster


@pytest.fixture(scope="module")
def cluster():
    return Cluster()


def config(folder, **settings):
    return GatewayConfig(**{"data_dir": str(folder), "control_socket": "/s", "name": "g1", "tls": Tls.ON, **settings})


@pytest.mark.parametrize("tls", [Tls.OFF, Tls.LOOPBACK])
def test_without_tls_there_is_none(tmp_path, tls):
    assert gateway_tls(config(tmp_path, tls=tls)) is None


def test_a_gateway_shows_clients_its_own_certificate_and_lets_anybody_in(tmp_path, cluster):
    cluster.join(tmp_path, Part.GATEWAY, "g1")
    tls = gateway_tls(config(tmp_path))

    assert tls.clients.refuse is None
    assert len(tls.certificates) == 2


def test_what_is_renewed_is_taken_for_all_that_it_serves(tmp_path, cluster):
    cluster.join(tmp_path, Part.GATEWAY, "g1")
    tls = gateway_tls(config(tmp_path))
    cluster.join(tmp_path, Part.GATEWAY, "g1")

    assert [one.reload() for one in tls.certificates] == [True, True]
    assert [one.reload() for one in tls.certificates] == [False, False]


def test_one_that_did_not_join_is_told_how(tmp_path):
    with pytest.raises(InvalidInput, match="this machine has not joined") as caught:
        gateway_tls(config(tmp_path))
    assert "llmgw gateway join" in caught.value.hint


@pytest.mark.parametrize(
    ("shown", "words", "field"),
    [
        ((Part.GATEWAY, "g2"), "joined by the name 'g2', not 'g1'", "name"),
        ((Part.NODE, "g1"), "is of node g1, not of a gateway", "data_dir"),
    ],
)
def test_an_identity_that_is_not_its_own_is_refused(tmp_path, cluster, shown, words, field):
    cluster.join(tmp_path, *shown)
    with pytest.raises(InvalidInput, match=words) as caught:
        gateway_tls(config(tmp_path))
    assert caught.value.field == field


def test_a_certificate_of_the_operator_is_read_where_one_is_named(tmp_path, cluster):
    cluster.join(tmp_path, Part.GATEWAY, "g1")
    named = {"certificate_file": str(tmp_path / "none.pem"), "key_file": str(tmp_path / "none.pem")}
    with pytest.raises(InvalidInput, match=r"certificate_file: cannot read .*none.pem"):
        gateway_tls(config(tmp_path, **named))
