"""What every handler may use."""

from dataclasses import dataclass

from llmgw.config.server import ServerConfig
from llmgw.ports import Clock, Store
from llmgw.server.fleet import Fleet
from llmgw.server.restore import Restore
from llmgw.server.services.node_history import NodeHistory
from llmgw.server.standby import Standby


@dataclass(frozen=True, kw_only=True)
class Context:
    """Built once by the wiring."""

    fleet: Fleet
    clock: Clock
    store: Store
    config: ServerConfig
    history: NodeHistory
    version: str
    """Release this process runs, captured when it started."""
    restore: Restore | None = None
    """`None` where nothing can be restored: in tests of other things."""
    standby: Standby | None = None
    """Has the leader answer a request while this control plane stands by."""
