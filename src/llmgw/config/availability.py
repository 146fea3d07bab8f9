"""What stands around several control planes: Patroni's addresses, a floating address."""

import ipaddress
from urllib.parse import urlsplit

from llmgw.schema.errors import InvalidInput


def check_patroni(addresses: tuple[str, ...], *, ca_file: str | None, store_url: str | None) -> None:
    """Refuse what is no root of a REST, and what says nothing. Raises `InvalidInput`."""
    for address in addresses:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
            raise InvalidInput(
                f"patroni: {address!r} is not the root of Patroni's REST",
                hint='write patroni = ["http://db1:8008", …]',
                field="patroni",
            )
    if addresses and not (store_url or "").startswith("postgres"):
        raise InvalidInput(
            "patroni says nothing about a store that is not PostgreSQL", hint="set store_url", field="patroni"
        )
    if ca_file is not None and not any(address.startswith("https:") for address in addresses):
        raise InvalidInput(
            "patroni_ca_file says nothing without an https address in patroni",
            hint="leave it out, or use https",
            field="patroni_ca_file",
        )


def check_floating(address: str | None) -> None:
    """Refuse what is no address. Raises `InvalidInput`."""
    if address is None:
        return
    try:
        ipaddress.ip_address(address)
    except ValueError as error:
        raise InvalidInput(
            f"floating_address = {address!r} is no IP address",
            hint="write it without port and prefix",
            field="floating_address",
        ) from error
