"""etcd's configuration: three members that keep Patroni's consensus, mutual TLS between all."""

from llmgw.install.hosts import Certificates, Cluster

CLIENT_PORT = 2379
PEER_PORT = 2380


def etcd_environment(
    cluster: Cluster, name: str, *, data_dir: str, certificates: Certificates | None, existing: bool = False
) -> str:
    """Give the environment file of one etcd member. Without certificates it speaks plain HTTP: laboratories only.

    `existing` for a member that joins a cluster that runs already.
    """
    own = cluster.host(name)
    scheme = "https" if certificates else "http"
    members = ",".join(f"{host.name}={scheme}://{host.address}:{PEER_PORT}" for host in cluster.hosts)
    settings = {
        "NAME": own.name,
        "DATA_DIR": data_dir,
        "LISTEN_PEER_URLS": f"{scheme}://{own.address}:{PEER_PORT}",
        "INITIAL_ADVERTISE_PEER_URLS": f"{scheme}://{own.address}:{PEER_PORT}",
        "LISTEN_CLIENT_URLS": f"{scheme}://{own.address}:{CLIENT_PORT},{scheme}://127.0.0.1:{CLIENT_PORT}",
        "ADVERTISE_CLIENT_URLS": f"{scheme}://{own.address}:{CLIENT_PORT}",
        "INITIAL_CLUSTER": members,
        "INITIAL_CLUSTER_TOKEN": f"llmgw-{cluster.name}",
        "INITIAL_CLUSTER_STATE": "existing" if existing else "new",
        "AUTO_COMPACTION_RETENTION": "1",
    }
    if certificates:
        for kind in ("", "PEER_"):
            settings |= {
                f"{kind}CERT_FILE": certificates.certificate,
                f"{kind}KEY_FILE": certificates.key,
                f"{kind}TRUSTED_CA_FILE": certificates.authority,
                f"{kind}CLIENT_CERT_AUTH": "true",
            }
    lines = "".join(f"ETCD_{key}={value}\n" for key, value in settings.items())
    return f"# Written by llmgw for {own.name}, cluster {cluster.name}. Changes made here are lost.\n{lines}"


def etcd_unit(*, environment: str = "/etc/llmgw/etcd.env") -> str:
    """Give the systemd unit."""
    return f"""\
[Unit]
Description=etcd for llmgw's database
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
User=etcd
EnvironmentFile={environment}
ExecStart=/usr/bin/etcd
Restart=always
RestartSec=1
LimitNOFILE=65536
NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
"""
