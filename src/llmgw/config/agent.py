"""Configuration of the agent."""

from llmgw.config.bounds import Pause, Seconds, Verbosity
from llmgw.config.logging import LogFormat, LogLevel
from llmgw.config.tls import split_address
from llmgw.schema.device import Device
from llmgw.schema.errors import InvalidInput
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
    heartbeat_s: Seconds = 5.0
    discover_s: Seconds = 30.0
    """Seconds between two looks at weights and storage."""
    start_timeout_s: Seconds = 600.0
    """Seconds a starting engine may go without progress."""
    stop_grace_s: Pause = 30.0
    engine_verbosity: Verbosity = 2
    """Log level of llama.cpp: 2 gives the cause of a failed start, 3 a few lines per request."""
    log_level: LogLevel = LogLevel.INFO
    """`debug`, `info`, `warning` or `error`."""
    log_format: LogFormat = LogFormat.AUTO
    """`json`, `console`, or `auto`: console on a terminal."""

    def __post_init__(self) -> None:
        if not self.servers:
            raise InvalidInput(
                "servers is empty", hint='name a control plane: servers = ["host:8801"]', field="servers"
            )
        for server in self.servers:
            split_address(server, field="servers")
        split_address(self.door_listen, field="door_listen")
