"""What control planes tell each other when the one that leads may be the only one that cannot reach the agents."""

from llmgw.schema.value import Value


class StandbyWord(Value, frozen=True, kw_only=True):
    """What one control plane that stands by says of itself."""

    name: str
    nodes: frozenset[str]
    """Nodes whose agents asked it to take them on within the last seconds: they reach it, and have no leader."""
    may_lead: bool
    """It would take the lease: the store answers it, and it did not give the lead away a short while ago."""
