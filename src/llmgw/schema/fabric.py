"""Fabrics: operator-named high-speed networks."""

from llmgw.schema.value import Value


class Fabric(Value, frozen=True, kw_only=True):
    """One node's attachment to a fabric. The name is the operator's; nothing is inferred."""

    name: str
    hcas: tuple[str, ...] = ()
    rate_gbps: float | None = None
