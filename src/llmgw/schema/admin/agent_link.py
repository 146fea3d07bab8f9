"""How agents join, as operators are told."""

from llmgw.schema.value import Value


class AgentLink(Value, frozen=True, kw_only=True):
    """`GET /api/v1/agent-link`."""

    address: str
    """`host:port` where this control plane listens for agents; `0.0.0.0` is all of its addresses."""
    token: str
    """What agents present in their hello."""
