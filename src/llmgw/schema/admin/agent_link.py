"""How agents join, as operators are told."""

from llmgw.schema.value import Value


class AgentLink(Value, frozen=True, kw_only=True):
    """`GET /api/v1/agent-link`."""

    address: str
    """`host:port` where this control plane listens for agents; `0.0.0.0` is all of its addresses."""
    token: str | None = None
    """What agents present in their hello; none with mutual TLS, where each machine joins with a token of its own."""
