"""Control planes as each tells of itself, in a table outside the fence: who is there, and where it answers."""

from datetime import datetime

from llmgw.schema.value import Value
from llmgw.schema.view import Peer


class Member(Value, frozen=True, kw_only=True):
    """One control plane. Whether it answers is found out by asking it, not by reading this."""

    name: str
    holder: str
    """Its process, as the lease row names it."""
    api: str
    """Root URL of its API."""
    agents: str
    """Where agents reach it, `host:port`; empty when it does not know."""
    version: str
    started_at: datetime
    gateways: tuple[Peer, ...] = ()
    """Gateways connected to it that other gateways can reach."""
