"""What a node's adapters say of a fabric that its operator named: how fast it is, and what does not fit together.

Which adapters belong together is the operator's word. Nothing is inferred: unconnected networks carry equal prefixes
(fe80::) and equal addresses (lids).
"""

from collections.abc import Collection, Iterator, Sequence

import msgspec

from llmgw.hardware.infiniband import OMNI_PATH
from llmgw.schema.fabric import Fabric, Port

ACTIVE = "ACTIVE"
_INFINIBAND = "InfiniBand"


def with_ports(fabric: Fabric, ports: Sequence[Port], interfaces: Collection[str] | None = None) -> Fabric:
    """Give the fabric with the node's adapters as they are; `ports` are all of the node.

    `interfaces` are the node's network interfaces, `None` when they are not known.
    """
    own = tuple(port for port in ports if any(_is_of(port, hca) for hca in fabric.hcas))
    slowest = _slowest(own)
    return msgspec.structs.replace(
        fabric,
        rate_gbps=fabric.rate_gbps if fabric.rate_gbps is not None else slowest,
        ports=own,
        warnings=(*_warnings(fabric, own, ports, slowest), *_interface_warnings(fabric, interfaces)),
    )


def _is_of(port: Port, hca: str) -> bool:
    """True when a name means this port: `mlx5_1` means all ports of that adapter, and none of `mlx5_10`."""
    name, _, number = hca.partition(":")
    return port.hca == name and number in ("", str(port.number))


def _slowest(ports: Sequence[Port]) -> float | None:
    return min((port.rate_gbps for port in _active(ports) if port.rate_gbps is not None), default=None)


def _active(ports: Sequence[Port]) -> tuple[Port, ...]:
    return tuple(port for port in ports if port.state == ACTIVE)


def _warnings(fabric: Fabric, own: Sequence[Port], ports: Sequence[Port], slowest: float | None) -> Iterator[str]:
    yield from _absent(fabric, ports)
    active = _active(own)
    if own and not active:
        yield "no port is active: nothing gets through"
    yield from (_down(port) for port in own if port not in active)
    yield from _apart(
        "link layers differ", ((port.link_layer, port) for port in active), "these cannot reach one another"
    )
    rates = ((None if port.rate_gbps is None else f"{port.rate_gbps:g} Gb/s", port) for port in active)
    yield from _apart("rates differ", rates, "the slowest counts")
    infiniband = [port for port in active if port.link_layer in (_INFINIBAND, OMNI_PATH)]
    unmanaged = [_name(port) for port in infiniband if port.sm_lid == 0]
    if unmanaged:
        yield f"no subnet manager is known to {', '.join(unmanaged)} (sm_lid 0): it does not get an address"
    managers = ((f"sm_lid {port.sm_lid}", port) for port in infiniband if port.sm_lid)
    yield from _apart("subnet managers differ", managers, "these are on two networks")
    if fabric.rate_gbps is not None and slowest is not None and fabric.rate_gbps > slowest:
        yield f"rate_gbps = {fabric.rate_gbps:g} is configured, but the slowest active port does {slowest:g} Gb/s"


def _absent(fabric: Fabric, ports: Sequence[Port]) -> Iterator[str]:
    missing = [hca for hca in fabric.hcas if not any(_is_of(port, hca) for port in ports)]
    if not missing:
        return
    there = ", ".join(dict.fromkeys(port.hca for port in ports))
    those = f"it has {there}" if there else "it has no InfiniBand or RoCE adapters"
    yield f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not on this node: {those}"


def _down(port: Port) -> str:
    physical = f", {port.phys_state}" if port.phys_state is not None else ""
    return f"{_name(port)} is {port.state or 'in an unknown state'}{physical}"


def _apart(what: str, said: Iterator[tuple[str | None, Port]], so: str) -> Iterator[str]:
    """Say which ports say what, when they do not all say the same. A port that says nothing is left out."""
    groups: dict[str, list[str]] = {}
    for text, port in said:
        if text is not None:
            groups.setdefault(text, []).append(_name(port))
    if len(groups) > 1:
        said_where = "; ".join(f"{text} on {', '.join(names)}" for text, names in groups.items())
        yield f"{what}: {said_where}: {so}"


def _name(port: Port) -> str:
    return f"{port.hca}:{port.number}"


def _interface_warnings(fabric: Fabric, interfaces: Collection[str] | None) -> Iterator[str]:
    if fabric.interface is not None and interfaces is not None and fabric.interface not in interfaces:
        yield f"the interface {fabric.interface} is not on this node: it has {', '.join(sorted(interfaces))}"
