"""Configuration of the gateway."""

from llmgw.config.bounds import Bytes, Count, Most, Pause, Seconds, Workers
from llmgw.config.logging import LogFormat, LogLevel
from llmgw.config.tls import Tls, is_wildcard, refuse_open_address, split_address
from llmgw.schema.errors import InvalidInput
from llmgw.schema.value import Value


class GatewayConfig(Value, frozen=True, kw_only=True):
    """`llmgw gateway --config FILE`."""

    data_dir: str
    """Folder for the last routing view; made with mode 0700."""
    control_socket: str | None = None
    """Unix socket of a control plane on this machine (`gateway_socket` of the server)."""
    control: tuple[str, ...] = ()
    """Instead of it, on a machine without one: the `gateway_listen` of all control planes, `host:port`. Needs
    `tls = "on"`."""
    name: str = "gateway-1"
    """With `tls = "on"`, the name it joined by (`llmgw gateway join`)."""
    listen: str = "127.0.0.1:8000"
    workers: Workers = 2
    tls: Tls = Tls.LOOPBACK
    """`on`: TLS for clients, and mutual TLS with the cluster's certificates towards nodes' doors, control planes and
    other gateways (docs/how-to/trust-across-machines.md). `off` allows addresses beyond loopback without TLS."""
    certificate_file: str | None = None
    """With `tls = "on"`: certificate (PEM, with its chain) that clients are shown. Default: the cluster's own, which
    only those trust who were given the cluster's authority. Files that are replaced are taken within seconds."""
    key_file: str | None = None
    """Its key, PEM, without a passphrase."""
    peer_listen: str | None = None
    """Address at which other gateways tell this one their load, so that all of them together ask the replica with least
    work. Absent: this gateway knows its own requests only."""
    peer_address: str | None = None
    """`host:port` at which they reach `peer_listen`; default that address itself."""
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
        self._check_control()
        self._check_certificate()
        self._check_peers()

    def _check_control(self) -> None:
        if (self.control_socket is None) is not bool(self.control):
            raise InvalidInput(
                "exactly one of control_socket and control says where the control plane is",
                hint="write control_socket for one on this machine, control for others",
                field="control_socket",
            )
        for address in self.control:
            split_address(address, field="control")
        if self.control and self.tls is not Tls.ON:
            raise InvalidInput(
                "control planes on other machines are reached with TLS only",
                hint='write tls = "on" and run llmgw gateway join',
                field="tls",
            )

    def _check_certificate(self) -> None:
        if (self.certificate_file is None) is not (self.key_file is None):
            raise InvalidInput(
                "certificate_file and key_file belong together",
                field="key_file" if self.key_file is None else "certificate_file",
            )
        if self.certificate_file is not None and self.tls is not Tls.ON:
            raise InvalidInput('certificate_file says nothing without tls = "on"', hint='write tls = "on"', field="tls")

    def _check_peers(self) -> None:
        if self.peer_listen is None:
            if self.peer_address is not None:
                raise InvalidInput("peer_address says nothing without peer_listen", field="peer_listen")
            return
        refuse_open_address(self.peer_listen, self.tls, field="peer_listen")
        if self.peer_address is not None:
            split_address(self.peer_address, field="peer_address")
        elif is_wildcard(self.peer_listen):
            raise InvalidInput(
                f"peer_listen = {self.peer_listen!r} does not say where other gateways reach this one",
                hint='write peer_address = "ADDRESS:PORT" with an address of this machine',
                field="peer_address",
            )
