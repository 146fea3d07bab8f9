"""Configuration of the control plane."""

from llmgw.config.bounds import Count, Pause, Seconds
from llmgw.config.logging import LogFormat, LogLevel
from llmgw.config.tls import refuse_open_address
from llmgw.schema.value import Value


class ServerConfig(Value, frozen=True, kw_only=True):
    """`llmgw server --config FILE`."""

    data_dir: str
    """Folder for the store, sockets and secrets; made with mode 0700."""
    name: str = "control-1"
    """Name of this control plane, shown by `ctl status`."""
    api_listen: str = "127.0.0.1:8800"
    """Address of API and console."""
    agent_listen: str = "127.0.0.1:8801"
    """Address agents connect to."""
    gateway_url: str | None = None
    """Base URL of `/v1` as shown to people, such as `http://llm.example.org:8000/v1`."""
    gateway_socket: str | None = None
    """Unix socket for gateways on this machine; default `data_dir/hub.sock`."""
    store_url: str | None = None
    """Database: `sqlite:////absolute/path/llmgw.db`, or a libpq URL such as
    `postgresql://llmgw@db1:5432/llmgw?sslmode=require` (needs the extra `postgres`); a password belongs in the
    environment as `LLMGW_STORE_PASSWORD`, or in a file named by `passfile` in the URL, not in the URL itself.
    Default SQLite in `data_dir/llmgw.db`."""
    agent_token_file: str | None = None
    """File with the token agents present; default `data_dir/agent-token`, made when absent."""
    credentials_file: str | None = None
    """First API key and admin token: taken from it when it exists, else made and written there (mode 0600).
    Default `data_dir/credentials.json`."""
    tls: str = ""
    """`off` allows addresses beyond loopback without TLS."""
    backoff_base_s: Pause = 2.0
    """Seconds before the second start after a failed one; doubles with each failure."""
    backoff_max_s: Pause = 60.0
    park_after: Count = 5
    """Consecutive failed starts after which a model is parked."""
    unreachable_after_s: Seconds = 15.0
    lost_after_s: Seconds = 300.0
    log_level: LogLevel = LogLevel.INFO
    """`debug`, `info`, `warning` or `error`."""
    log_format: LogFormat = LogFormat.AUTO
    """`json`, `console`, or `auto`: console on a terminal."""

    def __post_init__(self) -> None:
        refuse_open_address(self.api_listen, self.tls, field="api_listen")
        refuse_open_address(self.agent_listen, self.tls, field="agent_listen")
