"""keepalived's configuration: the floating address follows the leader, and nothing else decides.

The check has weight 0: who does not lead is in FAULT and cannot hold the address. With a priority weight instead, hosts
that lose sight of one another both hold it (facts on availability, section 2.1).
"""

import ipaddress

from llmgw.install.hosts import Cluster
from llmgw.schema.errors import InvalidInput
from llmgw.schema.value import Value

CHECK_S = 1
"""keepalived 2.2.7 takes whole seconds only."""
ADVERT_S = 0.3
"""A takeover costs a check and about three adverts; below a second VRRP version 3 is needed."""
HIGHEST_PRIORITY = 150


class FloatingAddress(Value, frozen=True, kw_only=True):
    """The address that stays on the leader."""

    address: str
    interface: str

    def __post_init__(self) -> None:
        try:
            ipaddress.ip_address(self.address)
        except ValueError as error:
            raise InvalidInput(
                f"floating address {self.address!r} is no IP address", hint="write it without a prefix", field="address"
            ) from error

    def with_prefix(self) -> str:
        """Give it as a network of its own: /32, or /128."""
        return str(ipaddress.ip_interface(self.address))


class Keepalived(Value, frozen=True, kw_only=True):
    """What one host's keepalived needs to know beside its cluster."""

    floating: FloatingAddress
    check: str
    """Path of the check script. It and all folders above it must belong to root and be writable by root alone, or
    keepalived refuses to run it."""
    check_user: str = "keepalived_script"
    fifo: str = "/run/llmgw/keepalived.fifo"
    """Changes of state are written to it, in their order; scripts could run in any."""


def keepalived_conf(cluster: Cluster, name: str, wish: Keepalived) -> str:
    """Give `keepalived.conf` for the host `name`."""
    own = cluster.host(name)
    place = [host.name for host in cluster.hosts].index(name)
    peers = "\n".join(f"        {host.address}" for host in cluster.others(name))
    return f"""\
# Written by llmgw for {own.name}, cluster {cluster.name}. Changes made here are lost.
global_defs {{
    router_id {own.name}
    enable_script_security
    script_user {wish.check_user}
    vrrp_version 3
    vrrp_garp_master_refresh 10
    vrrp_garp_master_repeat 3
    max_auto_priority
    vrrp_notify_fifo {wish.fifo}
}}

vrrp_script llmgw_leads {{
    script "{wish.check}"
    interval {CHECK_S}
    timeout {CHECK_S}
    fall 1
    rise 1
    init_fail
}}

vrrp_instance llmgw {{
    state BACKUP
    interface {wish.floating.interface}
    virtual_router_id {cluster.router_id()}
    priority {HIGHEST_PRIORITY - place}
    advert_int {ADVERT_S}
    unicast_src_ip {own.address}
    check_unicast_src
    unicast_peer {{
{peers}
    }}
    virtual_ipaddress {{
        {wish.floating.with_prefix()} dev {wish.floating.interface}
    }}
    track_script {{
        llmgw_leads
    }}
}}
"""


def check_script(address_url: str) -> str:
    """Give the script that says whether the address belongs here; it asks the process, for files outlive one.

    `address_url` is `/address` of the control plane on this host.
    """
    # On loopback a certificate proves nothing that the port does not, and the check's user need read no files for it.
    trust = " --insecure" if address_url.startswith("https:") else ""
    return f"""\
#!/bin/sh
# Exit 0 only while the control plane on this host leads, or lapsed a short while ago with the store away.
exec curl --silent --fail --output /dev/null --max-time 0.8{trust} {address_url}
"""


def keepalived_unit(floating: FloatingAddress, *, conf: str = "/etc/llmgw/keepalived.conf") -> str:
    """Give the systemd unit. A keepalived that was killed leaves its address behind, so the unit removes it."""
    return f"""\
[Unit]
Description=Floating address of llmgw ({floating.address})
Wants=network-online.target
After=network-online.target
# Bound to no other unit: the address must not move because a control plane restarts.

[Service]
ExecStart=/usr/sbin/keepalived --dont-fork --log-console --use-file {conf}
ExecReload=/bin/kill -HUP $MAINPID
ExecStopPost=-/sbin/ip address del {floating.with_prefix()} dev {floating.interface}
Restart=always
RestartSec=1
RuntimeDirectory=llmgw
RuntimeDirectoryPreserve=yes

[Install]
WantedBy=multi-user.target
"""
