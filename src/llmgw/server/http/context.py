"""What every handler may use."""

from dataclasses import dataclass

from llmgw.config.server import ServerConfig
from llmgw.ports import Clock, Store
from llmgw.server.fleet import Fleet


@dataclass(frozen=True, kw_only=True)
class Context:
    """Built once by the wiring."""

    fleet: Fleet
    clock: Clock
    store: Store
    config: ServerConfig
    version: str
    """Release this process runs, captured when it started."""
