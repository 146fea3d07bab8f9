"""Fabrics: operator-named high-speed networks."""

from llmgw.schema.value import Value


class Port(Value, frozen=True, kw_only=True):
    """One port of an adapter (HCA), as the kernel tells of it. What it does not tell is `None`."""

    hca: str
    number: int
    state: str | None = None
    """`ACTIVE`, `DOWN`, `INIT`, … Only an active port carries anything."""
    phys_state: str | None = None
    """`LinkUp`, `Disabled`, `Polling`, …"""
    rate_gbps: float | None = None
    """Of a port that is not active this is no capacity."""
    link_layer: str | None = None
    """`InfiniBand`, `Ethernet` (RoCE), or `Omni-Path`."""
    sm_lid: int | None = None
    """Where its subnet manager is; 0: it knows none."""
    interfaces: tuple[str, ...] = ()
    """Network interfaces on it."""


class Fabric(Value, frozen=True, kw_only=True):
    """One node's attachment to a fabric. The name is the operator's; nothing is inferred."""

    name: str
    hcas: tuple[str, ...] = ()
    """Adapters, `mlx5_0`, or one port of an adapter, `mlx5_0:1`."""
    rate_gbps: float | None = None
    """Of the slowest active port, unless the operator states it."""
    interface: str | None = None
    """Network interface that carries IP on this fabric; `None`: the node's management network does."""
    address: str | None = None
    """The node's IP address on `interface`."""
    ports: tuple[Port, ...] = ()
    """What its adapters are now."""
    warnings: tuple[str, ...] = ()
    """What is wrong with its adapters, in words."""
