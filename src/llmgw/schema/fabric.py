"""Fabrics: operator-named high-speed networks."""

from llmgw.schema.value import Value


class Fabric(Value, frozen=True, kw_only=True):
    """One node's attachment to a fabric. The name is the operator's; nothing is inferred."""

    name: str
    hcas: tuple[str, ...] = ()
    rate_gbps: float | None = None
    """Of the slowest active port."""
    interface: str | None = None
    """Network interface that carries IP on this fabric; `None`: the node's management network does."""
    address: str | None = None
    """The node's IP address on `interface`."""
