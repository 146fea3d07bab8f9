"""The machines of a cluster's control planes, and the files on them that configuration names."""

import zlib

from llmgw.schema.errors import InvalidInput
from llmgw.schema.value import Value


class Host(Value, frozen=True, kw_only=True):
    """One machine with a control plane, a database member and an etcd member."""

    name: str
    address: str
    """As the other hosts reach it; an IP address, without a port."""


class Certificates(Value, frozen=True, kw_only=True):
    """Paths of a host's own certificate and key and of the authority that all hosts trust."""

    authority: str
    certificate: str
    key: str


class Cluster(Value, frozen=True, kw_only=True):
    """All hosts, in an order that is the same everywhere: priorities follow from it."""

    name: str
    hosts: tuple[Host, ...]

    def __post_init__(self) -> None:
        for what, values in (
            ("name", [host.name for host in self.hosts]),
            ("address", [host.address for host in self.hosts]),
        ):
            if len(set(values)) != len(values):
                raise InvalidInput(f"two hosts have the same {what}: {', '.join(values)}", field="hosts")

    def host(self, name: str) -> Host:
        """Give one host. Raises `InvalidInput` naming those there are."""
        for host in self.hosts:
            if host.name == name:
                return host
        known = ", ".join(host.name for host in self.hosts)
        raise InvalidInput(f"{name!r} is no host of the cluster {self.name}", hint=f"one of {known}", field="name")

    def others(self, name: str) -> tuple[Host, ...]:
        """Give all hosts but one."""
        self.host(name)
        return tuple(host for host in self.hosts if host.name != name)

    def router_id(self) -> int:
        """Give the VRRP router id, 1 to 254, derived from the cluster's name so that neighbours rarely share one."""
        return zlib.crc32(self.name.encode()) % 254 + 1
