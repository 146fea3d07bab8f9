"""Configuration of the control plane."""

from llmgw.config.availability import check_floating, check_patroni
from llmgw.config.bounds import Count, Grace, Pause, Seconds, Silence
from llmgw.config.logging import LogFormat, LogLevel
from llmgw.config.prometheus import check_prometheus
from llmgw.config.tls import Tls, refuse_open_address, split_address
from llmgw.schema.errors import InvalidInput
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
    api_url: str | None = None
    """Root URL of this API as other control planes reach it; default `http://` and `api_listen`."""
    agent_address: str | None = None
    """`host:port` at which agents on other machines reach `agent_listen`; default that address itself."""
    gateway_url: str | None = None
    """Base URL of `/v1` as shown to people, such as `http://llm.example.org:8000/v1`."""
    gateway_socket: str | None = None
    """Unix socket for gateways on this machine; default `data_dir/hub.sock`."""
    gateway_listen: str | None = None
    """Address for gateways on other machines (`control` of the gateway), over mutual TLS; needs `tls = "on"`."""
    store_url: str | None = None
    """Database: `sqlite:////absolute/path/llmgw.db`, or a libpq URL such as
    `postgresql://llmgw@db1:5432/llmgw?sslmode=require` (needs the extra `postgres`); a password belongs in the
    environment as `LLMGW_STORE_PASSWORD`, or in a file named by `passfile` in the URL, not in the URL itself.
    Default SQLite in `data_dir/llmgw.db`."""
    api_certificate_file: str | None = None
    """With `tls = "on"`: certificate (PEM, with its chain) that API and console show, where people's browsers should
    not be asked to trust the cluster's authority; default a certificate of the cluster."""
    api_key_file: str | None = None
    """The key of `api_certificate_file`."""
    host_names: tuple[str, ...] = ()
    """Further names and addresses this control plane is reached by, for its certificate. Those in `api_url`,
    `agent_address`, the listening addresses and `floating_address` are in it anyway."""
    agent_token_file: str | None = None
    """File with the token agents present; default `data_dir/agent-token`, made when absent."""
    credentials_file: str | None = None
    """First API key and admin token: taken from it when it exists, else made and written there (mode 0600).
    Default `data_dir/credentials.json`."""
    tls: Tls = Tls.LOOPBACK
    """`on`: mutual TLS with the cluster's certificates (docs/how-to/trust-across-machines.md). `off` allows addresses
    beyond loopback without TLS."""
    backoff_base_s: Pause = 2.0
    """Seconds before the second start after a failed one; doubles with each failure."""
    backoff_max_s: Pause = 60.0
    park_after: Count = 5
    """Consecutive failed starts after which a model is parked."""
    unreachable_after_s: Silence = 15.0
    """Seconds without a sign of a node's agent after which nothing new is placed on it; at least 3. Agents give a sign
    every 5 s (their `heartbeat_s`): let two be missed."""
    lost_after_s: Seconds = 300.0
    """Seconds without a sign after which its replicas are replaced; at least twice `unreachable_after_s`. With less
    than a minute between the two, nodes that fall silent one after the other are not seen to do so together before the
    first of them is lost."""
    lost_grace_s: Grace = 60.0
    """Seconds that a control plane leads before it declares any node lost; at least 10: agents have to find it."""
    stop_grace_s: Pause = 30.0
    """Seconds that running API requests may take when the process is stopped. Agents and lease are let go at once."""
    patroni: tuple[str, ...] = ()
    """Roots of Patroni's REST, such as `["http://db1:8008"]`: the replicated store's members are shown, and what is
    wrong with them. One that answers names the others."""
    patroni_ca_file: str | None = None
    """Certificates that those of `https` addresses in `patroni` are checked against; default those of the system."""
    floating_address: str | None = None
    """The address that keepalived keeps on the leader: where it is, is shown, and an orphaned one is removed."""
    prometheus_url: str | None = None
    """Prometheus that scrapes this control plane, such as `http://127.0.0.1:9090`: pages of nodes take their last hour
    from it. Without one, or while it does not answer, the hour kept in memory is shown."""
    prometheus_token_file: str | None = None
    """File with the bearer token it asks for."""
    prometheus_ca_file: str | None = None
    """Certificates that its own is checked against; default those of the system."""
    prometheus_labels: dict[str, str] = {}
    """Labels of this fleet's series, where one Prometheus scrapes several fleets: `{ cluster = "a" }`."""
    log_level: LogLevel = LogLevel.INFO
    """`debug`, `info`, `warning` or `error`."""
    log_format: LogFormat = LogFormat.AUTO
    """`json`, `console`, or `auto`: console on a terminal."""

    def __post_init__(self) -> None:
        refuse_open_address(self.api_listen, self.tls, field="api_listen")
        refuse_open_address(self.agent_listen, self.tls, field="agent_listen")
        if (self.api_certificate_file is None) is not (self.api_key_file is None):
            raise InvalidInput("api_certificate_file and api_key_file need each other", field="api_key_file")
        if self.api_certificate_file is not None and self.tls is not Tls.ON:
            raise InvalidInput(
                'api_certificate_file says nothing without tls = "on"', hint='write tls = "on"', field="tls"
            )
        if self.gateway_listen is not None:
            split_address(self.gateway_listen, field="gateway_listen")
            if self.tls is not Tls.ON:
                raise InvalidInput(
                    'gateway_listen says nothing without tls = "on"', hint='write tls = "on"', field="tls"
                )
        check_patroni(self.patroni, ca_file=self.patroni_ca_file, store_url=self.store_url)
        check_floating(self.floating_address)
        check_prometheus(
            self.prometheus_url,
            token_file=self.prometheus_token_file,
            ca_file=self.prometheus_ca_file,
            labels=self.prometheus_labels,
        )
        if self.lost_after_s < 2 * self.unreachable_after_s:
            raise InvalidInput(
                f"lost_after_s = {self.lost_after_s:g} is too soon after unreachable_after_s = "
                f"{self.unreachable_after_s:g}",
                hint=f"write at least {2 * self.unreachable_after_s:g}: replacing costs more than waiting",
                field="lost_after_s",
            )
