"""How a process's connections are secured, and which addresses may be served without."""

import ipaddress
from enum import StrEnum

from llmgw.schema.errors import InvalidInput

_MAX_PORT = 65535


class Tls(StrEnum):
    """How connections between machines are secured."""

    LOOPBACK = ""
    """Not at all; so only addresses of this machine are allowed."""
    ON = "on"
    """Mutual TLS with the certificates of the cluster."""
    OFF = "off"
    """Not at all, on any address."""


def split_address(address: str, *, field: str) -> tuple[str, int]:
    """Split `host:port`. Raises `InvalidInput` naming `field`."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > _MAX_PORT:
        raise InvalidInput(
            f"{field} = {address!r} is not an address",
            hint="write host:port, such as 127.0.0.1:8000",
            field=field,
        )
    return host.strip("[]"), int(port)


def refuse_open_address(address: str, tls: Tls, *, field: str) -> None:
    """Refuse an address beyond loopback unless `tls` says how it is secured, or that it is not."""
    host, _ = split_address(address, field=field)
    if is_loopback(host) or tls is not Tls.LOOPBACK:
        return
    raise InvalidInput(
        f"{field} = {address!r} is reachable from other machines without TLS",
        hint='bind 127.0.0.1, or write tls = "on" (or tls = "off" if the network is yours alone)',
        field=field,
    )


def is_loopback(host: str) -> bool:
    """True for 127.0.0.0/8, ::1 and `localhost`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_wildcard(address: str) -> bool:
    """True for `host:port` that stands for all addresses of a machine, and so tells others nothing."""
    try:
        return ipaddress.ip_address(address.rpartition(":")[0].strip("[]")).is_unspecified
    except ValueError:
        return False
