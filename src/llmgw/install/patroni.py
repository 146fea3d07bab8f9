"""Patroni's configuration: PostgreSQL with synchronous replication, without which a lease's epoch can be lost.

The numbers are those measured in the facts on availability, section 1.3: `loop_wait + 2 x retry_timeout <= ttl`.
Passwords are not in it: Patroni reads them from its environment (`patroni_environment`, mode 0600).
"""

from llmgw.install.etcd import CLIENT_PORT
from llmgw.install.hosts import Certificates, Cluster
from llmgw.schema.value import Value

REST_PORT = 8008
POSTGRES_PORT = 5432


class Timing(Value, frozen=True, kw_only=True):
    """How fast a database fails over, in seconds; 30, 5, 10 suits slow disks."""

    ttl: int = 20
    loop_wait: int = 2
    retry_timeout: int = 3


class Postgres(Value, frozen=True, kw_only=True):
    """Where PostgreSQL lives on each host."""

    data_dir: str = "/var/lib/llmgw/postgres"
    bin_dir: str = "/usr/lib/postgresql/15/bin"
    socket_dir: str = "/run/llmgw-postgres"
    network: str
    """Addresses that may connect, such as `10.77.0.0/24`."""
    database: str = "llmgw"
    user: str = "llmgw"


def patroni_yaml(
    cluster: Cluster,
    name: str,
    postgres: Postgres,
    *,
    certificates: Certificates | None,
    timing: Timing | None = None,
    strict: bool = False,
) -> str:
    """Give `patroni.yml` for the host `name`. Without certificates REST and etcd are plain HTTP: laboratories only.

    `strict` refuses writes when no synchronous standby is left; by default they go on alone.
    """
    own = cluster.host(name)
    timing = timing or Timing()
    etcd = "\n".join(f"    - {host.address}:{CLIENT_PORT}" for host in cluster.hosts)
    return f"""\
# Written by llmgw for {own.name}, cluster {cluster.name}. Changes made here are lost.
# Passwords come from the environment.
scope: llmgw-{cluster.name}
namespace: /llmgw/
name: {own.name}

restapi:
  listen: {own.address}:{REST_PORT}
  connect_address: {own.address}:{REST_PORT}
{_rest_tls(certificates)}
etcd3:
  hosts:
{etcd}
{_etcd_tls(certificates)}
bootstrap:
  dcs:
    ttl: {timing.ttl}
    loop_wait: {timing.loop_wait}
    retry_timeout: {timing.retry_timeout}
    primary_start_timeout: 0
    maximum_lag_on_failover: 1048576
    synchronous_mode: true
    synchronous_mode_strict: {_yes(strict)}
    failsafe_mode: true
    postgresql:
      use_pg_rewind: true
      use_slots: true
      parameters:
        wal_log_hints: "on"
        max_connections: 200
        tcp_keepalives_idle: 5
        tcp_keepalives_interval: 2
        tcp_keepalives_count: 3
        tcp_user_timeout: 10s
        wal_sender_timeout: 5s
        wal_receiver_timeout: 5s
  initdb:
    - encoding: UTF8
    - data-checksums
{_client_tls(certificates)}
postgresql:
  listen: {own.address},127.0.0.1:{POSTGRES_PORT}
  connect_address: {own.address}:{POSTGRES_PORT}
  data_dir: {postgres.data_dir}
  bin_dir: {postgres.bin_dir}
  use_unix_socket: true
  parameters:
    unix_socket_directories: {postgres.socket_dir}
    password_encryption: scram-sha-256
  pg_hba:
    - local all all peer
    - host all all 127.0.0.1/32 scram-sha-256
    - host all all {postgres.network} scram-sha-256
    - host replication replicator 127.0.0.1/32 scram-sha-256
    - host replication replicator {postgres.network} scram-sha-256
  authentication:
    superuser:
      username: postgres
    replication:
      username: replicator
    rewind:
      username: rewind

watchdog:
  mode: automatic
  device: /dev/watchdog
  safety_margin: 5
"""


def patroni_environment(*, superuser: str, replication: str, rewind: str) -> str:
    """Give the environment file with the passwords; to be written with mode 0600."""
    return (
        f"PATRONI_SUPERUSER_PASSWORD={superuser}\n"
        f"PATRONI_REPLICATION_PASSWORD={replication}\n"
        f"PATRONI_REWIND_PASSWORD={rewind}\n"
    )


def patroni_unit(*, conf: str = "/etc/llmgw/patroni.yml", environment: str = "/etc/llmgw/patroni.env") -> str:
    """Give the systemd unit. Patroni must end before its PostgreSQL does, and it ends it itself."""
    return f"""\
[Unit]
Description=Patroni for llmgw's database
Wants=network-online.target
After=network-online.target etcd.service

[Service]
User=postgres
EnvironmentFile={environment}
ExecStart=/opt/llmgw/patroni/bin/patroni {conf}
ExecReload=/bin/kill -HUP $MAINPID
KillMode=process
TimeoutSec=30
Restart=always
RestartSec=2
RuntimeDirectory=llmgw-postgres
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
"""


def store_url(cluster: Cluster, postgres: Postgres) -> str:
    """Give the store's URL for control planes: all hosts, the one that accepts writes wanted."""
    hosts = ",".join(f"{host.address}:{POSTGRES_PORT}" for host in cluster.hosts)
    return f"postgresql://{postgres.user}@{hosts}/{postgres.database}?target_session_attrs=read-write"


def _rest_tls(certificates: Certificates | None) -> str:
    if certificates is None:
        return ""
    # Reading is open to whoever reaches the port; what changes something needs a certificate.
    return (
        f"  certfile: {certificates.certificate}\n"
        f"  keyfile: {certificates.key}\n"
        f"  cafile: {certificates.authority}\n"
        f"  verify_client: optional\n"
    )


def _etcd_tls(certificates: Certificates | None) -> str:
    if certificates is None:
        return ""
    return (
        "  protocol: https\n"
        f"  cacert: {certificates.authority}\n"
        f"  cert: {certificates.certificate}\n"
        f"  key: {certificates.key}\n"
    )


def _client_tls(certificates: Certificates | None) -> str:
    if certificates is None:
        return ""
    return (
        "\nctl:\n"
        f"  cacert: {certificates.authority}\n"
        f"  certfile: {certificates.certificate}\n"
        f"  keyfile: {certificates.key}\n"
    )


def _yes(value: bool) -> str:  # noqa: FBT001 (one letter of a file)
    return "true" if value else "false"
