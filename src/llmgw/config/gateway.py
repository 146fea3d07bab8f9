"""Configuration of the gateway."""

from llmgw.config.bounds import Bytes, Count, Most, Pause, Seconds, Workers
from llmgw.config.logging import LogFormat, LogLevel
from llmgw.config.tls import Tls, refuse_open_address
from llmgw.schema.value import Value


class GatewayConfig(Value, frozen=True, kw_only=True):
    """`llmgw gateway --config FILE`."""

    data_dir: str
    """Folder for the last routing view; made with mode 0700."""
    control_socket: str
    """Unix socket of a control plane on this machine (`gateway_socket` of the server)."""
    name: str = "gateway-1"
    listen: str = "127.0.0.1:8000"
    workers: Workers = 2
    tls: Tls = Tls.LOOPBACK
    """`on`: mutual TLS with the cluster's certificates (docs/how-to/trust-across-machines.md). `off` allows an address
    beyond loopback without TLS."""
    max_body_bytes: Bytes = 32 * 1024 * 1024
    max_header_bytes: Bytes = 64 * 1024
    header_timeout_s: Seconds = 20.0
    """Seconds a client has for its request line and headers."""
    body_timeout_s: Seconds = 120.0
    keep_alive_s: Seconds = 75.0
    max_connections: Count = 4096
    """Open client connections per worker."""
    queue_per_model: Most = 128
    """Requests that may wait for a free slot of one model, per worker; beyond it 429."""
    queue_timeout_s: Seconds = 60.0
    hold_s: Seconds = 60.0
    """Most seconds a request that is not streamed waits for a model that starts on demand; streams wait on, with a
    comment every `hold_comment_s`."""
    hold_comment_s: Seconds = 5.0
    hold_bytes: Bytes = 256 * 1024 * 1024
    """Requests that wait for starting models may hold so much memory per worker; beyond it 429."""
    first_byte_timeout_s: Seconds = 600.0
    idle_timeout_s: Seconds = 120.0
    """Seconds between two chunks of an answer."""
    drain_s: Pause = 30.0
    """Seconds open answers may still run when the gateway is stopped."""
    log_level: LogLevel = LogLevel.INFO
    """`debug`, `info`, `warning` or `error`."""
    log_format: LogFormat = LogFormat.AUTO
    """`json`, `console`, or `auto`: console on a terminal."""

    def __post_init__(self) -> None:
        refuse_open_address(self.listen, self.tls, field="listen")
