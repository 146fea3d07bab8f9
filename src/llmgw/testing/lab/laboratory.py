"""Three hosts with everything that keeps a cluster alive, a host of fake nodes, and a client."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from llmgw.install.hosts import Cluster, Host
from llmgw.link.api import Api, Unreachable
from llmgw.schema.errors import LlmgwError
from llmgw.testing.lab import control_planes, database, network
from llmgw.testing.lab.control_planes import API_PORT, FLOATING, GATEWAY_PORT, ControlPlanes
from llmgw.testing.lab.database import Database
from llmgw.testing.lab.network import Network
from llmgw.testing.lab.part import Part
from llmgw.testing.lab.visitor import HostApi, Visitor, chat
from llmgw.testing.obeyed import Obeyed, read_obeyed

HOSTS = ("cp1", "cp2", "cp3")
MODEL = "counting"
WEIGHTS = "/models/counting.gguf"
WAIT_S = 90.0
"""Generous: the machine may be busy with other tests."""


def missing() -> str | None:
    """Say why there can be no laboratory here; `None` when there can."""
    return network.missing() or database.missing() or control_planes.missing()


class Laboratory:
    """All of it, running. Use as a context."""

    def __init__(self, *, nodes: int = 4) -> None:
        # Not below a test's own folder: the database's user must be able to walk there.
        self.folder = Path(tempfile.mkdtemp(prefix="llmgw-lab-"))
        self.folder.chmod(0o755)
        self.network = Network((*HOSTS, "nodes", "client"))
        self._nodes = nodes

    def __enter__(self) -> Self:
        self.network.__enter__()
        hosts = tuple(Host(name=name, address=self.network.addresses[name]) for name in HOSTS)
        cluster = Cluster(name="lab", hosts=hosts)
        self.database = Database(self.network, cluster, self.folder)
        self.planes = ControlPlanes(self.network, cluster, self.database, self.folder)
        self.client = Visitor(self.network, "client")
        self.nodes: Part | None = None
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.nodes is not None:
            self.nodes.end()
        self.planes.end()
        self.database.end()
        self.planes.remove()
        self.client.close()
        self.network.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def api(self, host: str | None = None) -> HostApi:
        """Give the admin API of one host, or by the floating address."""
        address = FLOATING.address if host is None else self.network.addresses[host]
        return self.client.api(f"{address}:{API_PORT}", self.planes.credentials()["admin_token"])

    def direct_api(self) -> Api:
        """Give the admin API by the floating address, for work that runs on the client's host already."""
        return Api(f"http://{FLOATING.address}:{API_PORT}", self.planes.credentials()["admin_token"], timeout_s=3.0)

    def pause(self, seconds: float) -> None:
        """Let time pass, where time itself is what is tested."""
        time.sleep(seconds)

    def chat(
        self, host: str | None = None, *, stream: bool = False, timeout_s: float = 20.0, connect_s: float | None = None
    ) -> Callable[[], str]:
        """Give a function that asks the model through one host's gateway, or by the floating address."""
        address = FLOATING.address if host is None else self.network.addresses[host]
        key = self.planes.credentials()["api_key"]
        at = f"{address}:{GATEWAY_PORT}"
        return lambda: chat(at, key, MODEL, stream=stream, timeout_s=timeout_s, connect_s=connect_s)

    def status(self, host: str | None = None) -> str:
        """Run `llmgw ctl status` on the client's host."""
        address = FLOATING.address if host is None else self.network.addresses[host]
        token = self.planes.credentials()["admin_token"]
        env = {**os.environ, "LLMGW_API": f"http://{address}:{API_PORT}", "LLMGW_TOKEN": token}
        argv = (*self.network.enter("client"), sys.executable, "-m", "llmgw", "ctl", "status")
        done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False, timeout=60)
        return done.stdout + done.stderr

    def summary(self, host: str | None = None) -> dict[str, Any]:
        """Give the summary one host gives; empty when it does not answer."""
        try:
            found: dict[str, Any] = self.api(host).get("/api/v1/summary")
        except (Unreachable, LlmgwError, OSError):
            return {}
        return found

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Give the newest events, newest first, or those of one kind among them."""
        found = self.api().get("/api/v1/events?limit=500")["events"]
        return [event for event in found if kind in {None, event["kind"]}]

    def leader(self) -> str | None:
        """Name the host that leads, as those that answer say."""
        for host in HOSTS:
            for member in self.summary(host).get("control_planes", {}).get("members", []):
                if member["state"] == "leading":
                    return str(member["name"])
        return None

    def obeyed(self) -> tuple[Obeyed, ...]:
        """Give whom the nodes obeyed and refused, in order."""
        return read_obeyed(self.folder / "obeyed")

    def lead(self, host: str) -> None:
        """Have the control plane of one host lead: others step down in turn and leave the lease alone meanwhile."""
        while (leader := self._agreed()) != host:
            if leader is not None:
                self.api(leader).post("/api/v1/control-planes/step-down", {"seconds": 30})
                self.wait_for("its end", lambda: self._agreed() != leader)
            time.sleep(0.2)

    def _agreed(self) -> str | None:
        """Name the leader that all hosts name; a step-down asked of one that only believes so would hit the next."""
        named = {self.summary(host).get("leader") for host in HOSTS}
        return named.pop() if len(named) == 1 else None

    def wait_for(self, what: str, wanted: Callable[[], object], *, seconds: float = WAIT_S) -> float:
        """Wait until `wanted` gives something true; gives the seconds it took. Raises `TimeoutError`."""
        began = time.monotonic()
        while not wanted():
            if time.monotonic() - began > seconds:
                raise TimeoutError(f"{what}: not within {seconds:g} s\n{self.status(self.leader() or HOSTS[0])}")
            time.sleep(0.1)
        return time.monotonic() - began

    def whole(self) -> bool:
        """True when nothing is wrong: all lead or stand by, the store and the address are well, all nodes are there."""
        found = self.summary()
        planes = found.get("control_planes", {})
        states = [member["state"] for member in planes.get("members", [])]
        return (
            sorted(states) == ["leading", "standing by", "standing by"]
            and planes.get("floating_state") == "on the leader"
            and not found.get("store_problem")
            and len(found.get("store", [])) == len(HOSTS)
            and not any(member.get("problem") for member in found["store"])
            and found["nodes"]["ready"] == self._nodes
            and found["models"]["short"] == 0
        )

    def settle(self) -> float:
        """Wait until nothing is wrong."""
        return self.wait_for("everything is well", self.whole, seconds=2 * WAIT_S)

    def _start(self) -> None:
        self.database.start()
        self.planes.make()
        # The first one makes the schema and the secrets that the others find.
        self.planes.servers[HOSTS[0]].start()
        self.wait_for("secrets", (self.folder / "credentials.json").exists)
        for host in HOSTS[1:]:
            self.planes.servers[host].start()
        for part in (*self.planes.gateways.values(), *self.planes.keepalived.values()):
            part.start()
        self.wait_for("a leader by the floating address", lambda: self.summary().get("leader"))
        self._start_nodes()
        profile = {"engine": "fake", "memory_gb": 1}
        self.api().post("/api/v1/models", {"name": MODEL, "source": WEIGHTS, "min": 2, "profile": profile})
        self.settle()

    def _start_nodes(self) -> None:
        servers = [word for address in self.planes.agent_addresses() for word in ("--server", address)]
        obeyed = ("--obeyed", str(self.folder / "obeyed"))
        own = ("--listen", self.network.addresses["nodes"], "--token-file", str(self.planes.token_file), *obeyed)
        kind = ("--count", str(self._nodes), "--kind", "cpu-small", "--weights", WEIGHTS, "--heartbeat", "2")
        argv = (*self.network.enter("nodes"), sys.executable, "-m", "llmgw", "fake-nodes", *kind, *own, *servers)
        self.nodes = Part(argv, log=self.folder / "nodes.log")
        self.nodes.start()
