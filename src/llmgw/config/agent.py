"""Configuration of the agent."""

from typing import Annotated

from msgspec import Meta

from llmgw.config.bounds import Pause, Seconds, Verbosity
from llmgw.config.fabric import FabricConfig, check_fabrics
from llmgw.config.logging import LogFormat, LogLevel
from llmgw.config.tls import Tls, split_address
from llmgw.schema.device import Device
from llmgw.schema.errors import InvalidInput
from llmgw.schema.value import Value


class AgentConfig(Value, frozen=True, kw_only=True):
    """`llmgw agent --config FILE`."""

    data_dir: str
    """Folder for logs, state and keys of engines; made with mode 0700."""
    servers: tuple[str, ...]
    """Agent addresses of all control planes, `host:port`."""
    token_file: str | None = None
    """File with the token the control plane expects; not with `tls = "on"`."""
    tls: Tls = Tls.LOOPBACK
    """`on`: mutual TLS with the certificate that `llmgw agent join` gets, to control planes and at the door."""
    node_id: str | None = None
    """Chosen once, kept in `data_dir/node-id`; default the host name."""
    address: str | None = None
    """Management address other machines reach; default found by the route to the first server."""
    labels: dict[str, str] = {}
    weights_dirs: tuple[str, ...] | None = None
    """Folders to look for weights in; absent means: not asked to look."""
    digest_mib_per_s: Annotated[int, Meta(ge=0, le=100_000)] = 100
    """MiB of weights read in a second, at most, to tell equal ones by their content; 0: no digests are made."""
    fabrics: tuple[FabricConfig, ...] = ()
    """High-speed networks the node is attached to, one table for each. Nothing is inferred: nodes that name the same
    fabric must really reach each other over the adapters (`hcas`) they name: `mlx5_0`, or one port of it, `mlx5_0:1`.
    `rate_gbps` is for where the adapters' own rate is not the truth; `interface` carries IP on this fabric."""
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
        if (self.token_file is None) is not (self.tls is Tls.ON):
            raise InvalidInput(
                'token_file and tls = "on" exclude each other: a certificate takes the place of the token'
                if self.token_file is not None
                else "token_file is missing",
                hint='with tls = "on", run llmgw agent join; else name the file with the control plane\'s token',
                field="token_file",
            )
        for server in self.servers:
            split_address(server, field="servers")
        split_address(self.door_listen, field="door_listen")
        check_fabrics(self.fabrics)
