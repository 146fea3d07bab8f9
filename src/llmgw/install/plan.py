"""A cluster's machines in one file, and the files that each of them gets."""

from collections.abc import Callable

from llmgw.install.etcd import etcd_environment, etcd_unit
from llmgw.install.hosts import Certificates, Cluster, Host
from llmgw.install.keepalived import FloatingAddress, Keepalived, check_script, keepalived_conf, keepalived_unit
from llmgw.install.patroni import Postgres, Timing, patroni_unit, patroni_yaml, store_url
from llmgw.schema.errors import InvalidInput
from llmgw.schema.value import Value

CHECK = "/etc/llmgw/llmgw-leads"
ETCD_DATA = "/var/lib/llmgw/etcd"


class ClusterPlan(Value, frozen=True, kw_only=True):
    """`llmgw config render --file cluster.toml`: what all hosts share."""

    name: str
    hosts: tuple[Host, ...]
    floating: FloatingAddress | None = None
    postgres: Postgres
    timing: Timing = Timing()
    strict: bool = False
    """Refuse writes when no synchronous standby is left."""
    certificates: Certificates | None = None
    """The same paths on each host; without them etcd and Patroni speak plain HTTP."""
    api: str = "http://127.0.0.1:8800"
    """The control plane's API as keepalived on the same host reaches it, on loopback; `https` with `tls = "on"`."""

    def cluster(self) -> Cluster:
        """Give the hosts. Raises `InvalidInput` when two share a name or an address."""
        return Cluster(name=self.name, hosts=self.hosts)


def files(plan: ClusterPlan, host: str) -> dict[str, str]:
    """Give all files of one host, by path. Passwords are not among them."""
    return {path: render(plan, host) for path, render in _FILES.items() if plan.floating or path not in _OF_ADDRESS}


def one_file(plan: ClusterPlan, host: str, path: str) -> str:
    """Give one file. Raises `InvalidInput` naming those there are."""
    found = files(plan, host)
    if path not in found:
        raise InvalidInput(f"{path!r} is none of the files of {host}", hint=f"one of {', '.join(found)}", field="path")
    return found[path]


def _floating(plan: ClusterPlan) -> FloatingAddress:
    if plan.floating is None:
        raise InvalidInput("no floating address is planned", hint="add [floating]", field="floating")
    return plan.floating


def _keepalived(plan: ClusterPlan, host: str) -> str:
    return keepalived_conf(plan.cluster(), host, Keepalived(floating=_floating(plan), check=CHECK))


def _patroni(plan: ClusterPlan, host: str) -> str:
    return patroni_yaml(
        plan.cluster(),
        host,
        plan.postgres,
        certificates=plan.certificates,
        timing=plan.timing,
        strict=plan.strict,
    )


def _etcd(plan: ClusterPlan, host: str) -> str:
    return etcd_environment(plan.cluster(), host, data_dir=ETCD_DATA, certificates=plan.certificates)


def _check(plan: ClusterPlan, _host: str) -> str:
    return check_script(f"{plan.api}/address")


def _server(plan: ClusterPlan, _host: str) -> str:
    scheme = "https" if plan.certificates else "http"
    patroni = ", ".join(f'"{scheme}://{host.address}:8008"' for host in plan.hosts)
    lines = [f'store_url = "{store_url(plan.cluster(), plan.postgres)}"', f"patroni = [{patroni}]"]
    if plan.certificates:
        lines.append(f'patroni_ca_file = "{plan.certificates.authority}"')
    if plan.floating:
        lines.append(f'floating_address = "{plan.floating.address}"')
    return "# These keys belong into server.toml of this host.\n" + "".join(f"{line}\n" for line in lines)


_FILES: dict[str, Callable[[ClusterPlan, str], str]] = {
    "/etc/llmgw/etcd.env": _etcd,
    "/etc/systemd/system/etcd.service": lambda _plan, _host: etcd_unit(),
    "/etc/llmgw/patroni.yml": _patroni,
    "/etc/systemd/system/llmgw-patroni.service": lambda _plan, _host: patroni_unit(),
    "/etc/llmgw/keepalived.conf": _keepalived,
    CHECK: _check,
    "/etc/systemd/system/llmgw-keepalived.service": lambda plan, _host: keepalived_unit(_floating(plan)),
    "/etc/llmgw/server.toml (a part)": _server,
}
_OF_ADDRESS = frozenset(path for path in _FILES if "keepalived" in path or path == CHECK)
