"""Configuration of the node door."""

from llmgw.config.logging import LogFormat, LogLevel
from llmgw.config.tls import Tls, refuse_open_address
from llmgw.schema.value import Value


class DoorConfig(Value, frozen=True, kw_only=True):
    """`llmgw door --config FILE`. The agent writes this file and starts the door."""

    data_dir: str
    """Folder with `door.sock`, over which the agent hands in shards and readings."""
    listen: str = "127.0.0.1:8802"
    tls: Tls = Tls.LOOPBACK
    """`on`: mutual TLS with the cluster's certificates (docs/how-to/trust-across-machines.md). `off` allows an address
    beyond loopback without TLS."""
    log_level: LogLevel = LogLevel.INFO
    """`debug`, `info`, `warning` or `error`."""
    log_format: LogFormat = LogFormat.AUTO
    """`json`, `console`, or `auto`: console on a terminal."""

    def __post_init__(self) -> None:
        refuse_open_address(self.listen, self.tls, field="listen")
