import re

import pytest

from llmgw.install.hosts import Cluster, Host
from llmgw.install.keepalived import FloatingAddress, Keepalived, keepalived_conf
from llmgw.schema.errors import InvalidInput

CLUSTER = Cluster(name="blue", hosts=tuple(Host(name=f"cp{n}", address=f"10.0.0.{n}") for n in range(1, 6)))
WISH = Keepalived(floating=FloatingAddress(address="10.0.0.100", interface="eth0"), check="/etc/llmgw/llmgw-leads")


def rendered(name):
    return keepalived_conf(CLUSTER, name, WISH)


def test_hosts_agree_on_all_but_what_is_their_own():
    own = re.compile(r"(router_id cp|priority|unicast_src_ip|Written by|^        10\.)")
    shared = [[line for line in rendered(host.name).splitlines() if not own.search(line)] for host in CLUSTER.hosts]
    assert all(lines == shared[0] for lines in shared)


def test_priorities_are_distinct():
    found = {re.search(r"priority (\d+)", rendered(host.name)).group(1) for host in CLUSTER.hosts}
    assert len(found) == len(CLUSTER.hosts)


def test_each_peer_stands_on_a_line_of_its_own_and_the_host_itself_is_none():
    block = re.search(r"unicast_peer \{\n(.*?)\n    \}", rendered("cp3"), re.DOTALL).group(1)
    assert block.split("\n") == [f"        10.0.0.{n}" for n in (1, 2, 4, 5)]


def test_the_check_has_no_weight_for_a_weight_makes_two_addresses():
    assert "weight" not in rendered("cp1")


def test_an_address_of_version_six_stands_alone():
    assert FloatingAddress(address="fd00::1", interface="eth0").with_prefix() == "fd00::1/128"


@pytest.mark.parametrize("address", ["10.0.0.100/24", "floating.example.org", ""])
def test_a_floating_address_is_an_address(address):
    with pytest.raises(InvalidInput, match="is no IP address"):
        FloatingAddress(address=address, interface="eth0")
