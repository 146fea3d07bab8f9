"""Control plane, gateway and keepalived on each host of the laboratory, configured as they are on real ones."""

import json
import shutil
import sys
from pathlib import Path

from llmgw.install.hosts import Cluster
from llmgw.install.keepalived import FloatingAddress, Keepalived, check_script, keepalived_conf
from llmgw.install.patroni import REST_PORT, store_url
from llmgw.testing.lab.database import PASSWORD, Database
from llmgw.testing.lab.network import SUBNET, Network
from llmgw.testing.lab.part import Part

FLOATING = FloatingAddress(address=f"{SUBNET}.100", interface="eth0")
API_PORT, AGENT_PORT, GATEWAY_PORT = 8800, 8801, 8000


def missing() -> str | None:
    """Say what is not installed; `None` when all is."""
    absent = [name for name in ("keepalived", "curl") if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


class ControlPlanes:
    """One control plane with a gateway and a keepalived on each of `cluster`'s hosts."""

    def __init__(self, network: Network, cluster: Cluster, database: Database, folder: Path) -> None:
        self._network = network
        self._cluster = cluster
        self._database = database
        self._folder = folder
        self.servers: dict[str, Part] = {}
        self.gateways: dict[str, Part] = {}
        self.keepalived: dict[str, Part] = {}

    def make(self) -> None:
        """Write the configuration of all."""
        for host in self._cluster.hosts:
            self._make_server(host.name)
            self._make_gateway(host.name)
            self._make_keepalived(host.name)

    def start(self) -> None:
        """Start all."""
        for parts in (self.servers, self.gateways, self.keepalived):
            for part in parts.values():
                part.start()

    def end(self) -> None:
        """End all."""
        for parts in (self.keepalived, self.gateways, self.servers):
            for part in parts.values():
                part.end()

    def credentials(self) -> dict[str, str]:
        """Give API key and admin token, which are the same on all hosts."""
        found: dict[str, str] = json.loads((self._folder / "credentials.json").read_text())
        return found

    @property
    def token_file(self) -> Path:
        """The token that agents present, the same on all hosts."""
        return self._folder / "agent-token"

    def agent_addresses(self) -> tuple[str, ...]:
        """Where agents reach the control planes."""
        return tuple(f"{host.address}:{AGENT_PORT}" for host in self._cluster.hosts)

    def _make_server(self, name: str) -> None:
        own = self._own(name)
        address = self._cluster.host(name).address
        settings: dict[str, object] = {
            "data_dir": str(own / "server"),
            "name": name,
            "api_listen": f"0.0.0.0:{API_PORT}",
            "api_url": f"http://{address}:{API_PORT}",
            "agent_listen": f"{address}:{AGENT_PORT}",
            "agent_address": f"{address}:{AGENT_PORT}",
            "store_url": store_url(self._cluster, self._database.postgres),
            "agent_token_file": str(self.token_file),
            "credentials_file": str(self._folder / "credentials.json"),
            "patroni": [f"http://{host.address}:{REST_PORT}" for host in self._cluster.hosts],
            "floating_address": FLOATING.address,
            "tls": "off",
            "log_format": "json",
        }
        self.servers[name] = self._llmgw(name, "server", settings)

    def _make_gateway(self, name: str) -> None:
        own = self._own(name)
        settings = {
            "data_dir": str(own / "gateway"),
            "control_socket": str(own / "server" / "hub.sock"),
            "name": f"gateway-{name}",
            "listen": f"0.0.0.0:{GATEWAY_PORT}",
            "workers": 1,
            "tls": "off",
            "log_format": "json",
        }
        self.gateways[name] = self._llmgw(name, "gateway", settings)

    def _llmgw(self, name: str, process: str, settings: dict[str, object]) -> Part:
        own = self._own(name)
        config = own / f"{process}.toml"
        config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
        argv = (*self._network.enter(name), sys.executable, "-m", "llmgw", process, "--config", str(config))
        return Part(argv, log=own / f"{process}.log", env={"LLMGW_STORE_PASSWORD": PASSWORD})

    def _make_keepalived(self, name: str) -> None:
        own = self._own(name)
        # Script security looks at each folder of the path: those of the laboratory are root's, but not all above them.
        place = Path("/run") / self._network.namespace(name)
        place.mkdir(mode=0o755, exist_ok=True)
        script = place / "llmgw-leads"
        script.write_text(check_script(f"http://127.0.0.1:{API_PORT}/address"))
        script.chmod(0o755)
        wish = Keepalived(floating=FLOATING, check=str(script), check_user="nobody", fifo=str(place / "fifo"))
        conf = own / "keepalived.conf"
        conf.write_text(keepalived_conf(self._cluster, name, wish))
        pids = [word for flag in ("-p", "-r", "-c") for word in (flag, str(own / f"keepalived{flag}.pid"))]
        argv = (*self._network.enter(name), "keepalived", "-n", "-l", "-D", "-f", str(conf), *pids)
        self.keepalived[name] = Part(argv, log=own / "keepalived.log")

    def remove(self) -> None:
        """Remove what lies outside the laboratory's folder."""
        for host in self._cluster.hosts:
            shutil.rmtree(Path("/run") / self._network.namespace(host.name), ignore_errors=True)

    def _own(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return folder
