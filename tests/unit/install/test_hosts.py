import pytest

from llmgw.install.hosts import Cluster, Host
from llmgw.schema.errors import InvalidInput

CLUSTER = Cluster(name="blue", hosts=tuple(Host(name=f"cp{n}", address=f"10.0.0.{n}") for n in (1, 2, 3)))


def test_a_host_knows_the_others():
    assert [host.name for host in CLUSTER.others("cp2")] == ["cp1", "cp3"]


def test_a_host_that_is_none_is_named_with_those_there_are():
    with pytest.raises(InvalidInput, match="'cp9' is no host of the cluster blue") as refused:
        CLUSTER.others("cp9")
    assert refused.value.hint == "one of cp1, cp2, cp3"


@pytest.mark.parametrize(("name", "address"), [("cp1", "10.0.0.9"), ("cp9", "10.0.0.1")])
def test_two_hosts_never_share_a_name_or_an_address(name, address):
    with pytest.raises(InvalidInput, match="two hosts have the same"):
        Cluster(name="blue", hosts=(*CLUSTER.hosts, Host(name=name, address=address)))


def test_a_router_id_is_one_that_vrrp_has_and_stays():
    ids = {Cluster(name=f"cluster-{n}", hosts=()).router_id() for n in range(2000)}
    assert min(ids) >= 1
    assert max(ids) <= 254
    assert len(ids) > 200
    assert CLUSTER.router_id() == Cluster(name="blue", hosts=()).router_id()
