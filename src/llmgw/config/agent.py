"""Configuration of the agent."""

from llmgw.schema.device import Device
from llmgw.schema.fabric import Fabric
from llmgw.schema.value import Value


class AgentConfig(Value, frozen=True, kw_only=True):
    """`llmgw agent --config FILE`."""

    data_dir: str
    """Folder for logs, state and keys of engines; made with mode 0700."""
    servers: tuple[str, ...]
    """Agent addresses of all control planes, `host:port`."""
    token_file: str
    """File with the token the control plane expects."""
    node_id: str | None = None
    """Chosen once, kept in `data_dir/node-id`; default the host name."""
    address: str | None = None
    """Management address other machines reach; default found by the route to the first server."""
    labels: dict[str, str] = {}
    weights_dirs: tuple[str, ...] | None = None
    """Folders to look for weights in; absent means: not asked to look."""
    fabrics: tuple[Fabric, ...] = ()
    devices: tuple[Device, ...] = ()
    """Devices stated by hand, for cards that cannot be found."""
    door_listen: str = "127.0.0.1:8802"
    """Address of the node door; port 0 takes a free one."""
    heartbeat_s: float = 5.0
    discover_s: float = 30.0
    """Seconds between two looks at weights and storage."""
    start_timeout_s: float = 600.0
    """Seconds a starting engine may go without progress."""
    stop_grace_s: float = 30.0
    engine_verbosity: int = 2
    """Log level of llama.cpp: 2 gives the cause of a failed start, 3 a few lines per request."""
    log_level: str = "info"
    log_format: str = "auto"
