"""What is written onto the machines of three control planes, read line by line by people before it is trusted."""

from collections.abc import Callable

from llmgw.install.etcd import etcd_environment, etcd_unit
from llmgw.install.hosts import Certificates, Cluster, Host
from llmgw.install.keepalived import FloatingAddress, Keepalived, check_script, keepalived_conf, keepalived_unit
from llmgw.install.patroni import Postgres, patroni_environment, patroni_unit, patroni_yaml, store_url

CLUSTER = Cluster(name="blue", hosts=tuple(Host(name=f"cp{n}", address=f"10.77.0.1{n}") for n in (1, 2, 3)))
FLOATING = FloatingAddress(address="10.77.0.100", interface="eth0")
CERTIFICATES = Certificates(authority="/etc/llmgw/ca.pem", certificate="/etc/llmgw/host.pem", key="/etc/llmgw/host.key")
POSTGRES = Postgres(network="10.77.0.0/24")


def test_keepalived_follows_the_leader_and_nothing_else(golden: Callable[[str, str], None]) -> None:
    wish = Keepalived(floating=FLOATING, check="/etc/llmgw/llmgw-leads")
    for host in ("cp1", "cp3"):
        golden(f"install/keepalived-{host}.conf", keepalived_conf(CLUSTER, host, wish))
    golden("install/keepalived.service", keepalived_unit(FLOATING))
    golden("install/llmgw-leads", check_script("https://127.0.0.1:8800/address"))


def test_patroni_replicates_synchronously_and_holds_no_password(golden: Callable[[str, str], None]) -> None:
    golden("install/patroni-cp2.yml", patroni_yaml(CLUSTER, "cp2", POSTGRES, certificates=CERTIFICATES))
    golden("install/patroni-plain.yml", patroni_yaml(CLUSTER, "cp1", POSTGRES, certificates=None, strict=True))
    golden("install/patroni.env", patroni_environment(superuser="S", replication="R", rewind="W"))
    golden("install/patroni.service", patroni_unit())
    golden("install/store-url", store_url(CLUSTER, POSTGRES))


def test_etcd_members_trust_only_their_authority(golden: Callable[[str, str], None]) -> None:
    golden(
        "install/etcd-cp1.env",
        etcd_environment(CLUSTER, "cp1", data_dir="/var/lib/llmgw/etcd", certificates=CERTIFICATES),
    )
    golden(
        "install/etcd-plain.env",
        etcd_environment(CLUSTER, "cp2", data_dir="/var/lib/llmgw/etcd", certificates=None, existing=True),
    )
    golden("install/etcd.service", etcd_unit())
