"""Fabrics in the agent's configuration: `[[fabrics]]`."""

import ipaddress
import re
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from llmgw.schema.errors import InvalidInput
from llmgw.schema.fabric import Fabric
from llmgw.schema.value import Value

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HCA = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}(:[0-9]{1,3})?")
_INTERFACE = re.compile(r"[^\s/,^=:]{1,15}")
"""Names the kernel takes, without the signs that NCCL reads as a pattern."""


class FabricConfig(Value, frozen=True, kw_only=True):
    """One fabric, as its operator states it."""

    name: str
    """The same on all nodes that reach each other over it, and on no others."""
    hcas: tuple[str, ...] = ()
    """Adapters of this node on it, by their names in /sys/class/infiniband, or one port: `mlx5_0:1`."""
    rate_gbps: Annotated[float, Meta(gt=0, le=100_000)] | None = None
    """Default: that of the slowest active port."""
    interface: str | None = None
    """Network interface that carries IP on it; default: the node's management network does."""
    address: str | None = None
    """The node's IP address on `interface`."""

    def fabric(self) -> Fabric:
        """Give it as a fact of the node, before its adapters were looked at."""
        return Fabric(
            name=self.name, hcas=self.hcas, rate_gbps=self.rate_gbps, interface=self.interface, address=self.address
        )


def check_fabrics(fabrics: Sequence[FabricConfig]) -> None:
    """Raise `InvalidInput` for what no fabric can be, quoting what was written."""
    owners: dict[str, str] = {}
    for at, fabric in enumerate(fabrics):
        _check(f"fabrics[{at}]", fabric)
        if fabric.name in (other.name for other in fabrics[:at]):
            raise _wrong(
                f"fabrics[{at}].name", fabric.name, "is there twice", "one table for each fabric, with all hcas"
            )
        for hca in fabric.hcas:
            if hca in owners:
                where = f"is there for {owners[hca]!r} already"
                raise _wrong(
                    f"fabrics[{at}].hcas", hca, where, "fabrics are not connected: an adapter is on one of them"
                )
            owners[hca] = fabric.name


def _check(place: str, fabric: FabricConfig) -> None:
    if not _NAME.fullmatch(fabric.name):
        raise _wrong(f"{place}.name", fabric.name, "is no name", "up to 63 letters, digits, dots, dashes, underscores")
    for hca in fabric.hcas:
        if not _HCA.fullmatch(hca):
            raise _wrong(f"{place}.hcas", hca, "is no adapter", "a name in /sys/class/infiniband: mlx5_0, or mlx5_0:1")
    if fabric.interface is not None and not _INTERFACE.fullmatch(fabric.interface):
        raise _wrong(f"{place}.interface", fabric.interface, "is no interface", "a name that ip link shows: ib0")
    if fabric.address is not None and not _is_address(fabric.address):
        raise _wrong(f"{place}.address", fabric.address, "is no IP address", "this node's address on it: 10.1.0.17")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _wrong(field: str, written: str, what: str, hint: str) -> InvalidInput:
    return InvalidInput(f"{field} = {written!r} {what}", hint=hint, field=field)
