"""etcd, Patroni and PostgreSQL on each host of the laboratory, from the configuration that is installed for real."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from llmgw.install.etcd import etcd_environment
from llmgw.install.hosts import Cluster
from llmgw.install.patroni import REST_PORT, Postgres, patroni_environment, patroni_yaml
from llmgw.testing.lab.network import SUBNET, Network
from llmgw.testing.lab.part import Part
from llmgw.testing.postgres import installed
from llmgw.testing.small_disk import SmallDisk

USER = "postgres"
PASSWORD = "lab"  # noqa: S105 (of databases that live as long as a test)
START_S = 60.0
DISK_MIB = 1024
"""Of each host's PostgreSQL: a filesystem of its own in memory, that can be filled without harm to anybody else."""


def missing() -> str | None:
    """Say what is not installed; `None` when all is."""
    if shutil.which("etcd") is None:
        return "etcd is not installed: apt-get install etcd-server"
    if installed() is None:
        return "PostgreSQL is not installed: apt-get install postgresql"
    if patroni() is None:
        return "Patroni is not installed: make .cache/lab/.ready"
    return None


def patroni() -> Path | None:
    """Find Patroni: where `LLMGW_PATRONI` says, else in the environment that `make lab` makes."""
    found = Path(os.environ.get("LLMGW_PATRONI", ".cache/lab/bin/patroni")).absolute()
    return found if found.exists() else None


class Database:
    """The members of one replicated store, one on each of `cluster`'s hosts."""

    def __init__(self, network: Network, cluster: Cluster, folder: Path) -> None:
        self._network = network
        self._cluster = cluster
        self._folder = folder
        binaries, program = installed(), patroni()
        if binaries is None or program is None:
            raise RuntimeError(f"no laboratory without a database: {missing()}")
        self._binaries, self._program = binaries, program
        self._mounts = contextlib.ExitStack()
        self.disks: dict[str, SmallDisk] = {}
        """What each host's PostgreSQL lies on."""
        self.postgres = Postgres(network=f"{SUBNET}.0/24")
        self.etcd: dict[str, Part] = {}
        self.patroni: dict[str, Part] = {}

    def start(self) -> None:
        """Start all members, and wait until one leads and another one is its synchronous standby."""
        for host in self._cluster.hosts:
            self._make(host.name)
            self.etcd[host.name].start()
        for host in self._cluster.hosts:
            self.patroni[host.name].start()
        self.wait_for(lambda roles: {"leader", "sync_standby"} <= set(roles.values()), "a leader and a standby")
        self._make_database()

    def end(self) -> None:
        """End everything."""
        for part in (*self.patroni.values(), *self.etcd.values()):
            part.end()
        self._end_postgres()
        self._mounts.close()

    def roles(self) -> dict[str, str]:
        """Give the members' roles as the first Patroni that answers lists them; empty when none does."""
        for host in self._cluster.hosts:
            told = self.ask(host.name, "/cluster")
            if told is not None:
                return {one["name"]: one["role"] for one in told["members"] if one["state"] in ("running", "streaming")}
        return {}

    def leader(self) -> str:
        """Name the host of the primary."""
        found = [name for name, role in self.roles().items() if role == "leader"]
        if len(found) != 1:
            raise RuntimeError(f"{len(found)} primaries are listed")
        return found[0]

    def ask(self, host: str, path: str) -> dict[str, Any] | None:
        """Ask one host's Patroni, from that host; `None` when it does not answer within a second."""
        script = (
            "import http.client,sys\n"
            f"c=http.client.HTTPConnection({self._network.addresses[host]!r},{REST_PORT},timeout=1)\n"
            f"c.request('GET',{path!r});sys.stdout.write(c.getresponse().read().decode())"
        )
        argv = (*self._network.enter(host), sys.executable, "-c", script)
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
        if done.returncode != 0:
            return None
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def wait_for(self, wanted: Any, what: str, *, seconds: float = START_S) -> None:
        """Wait until the members' roles are as wanted. Raises `TimeoutError` saying what they are."""
        deadline = time.monotonic() + seconds
        while not wanted(roles := self.roles()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {what} within {seconds:g} s; there is {roles}, logs are in {self._folder}")
            time.sleep(0.3)

    def switch_over(self) -> None:
        """Have Patroni make the synchronous standby the primary: another candidate is refused."""
        roles = self.roles()
        leader = next(name for name, role in roles.items() if role == "leader")
        candidate = next(name for name, role in roles.items() if role == "sync_standby")
        self._have(leader, "POST", "/switchover", {"leader": leader, "candidate": candidate})

    def configure(self, **settings: object) -> None:
        """Change settings of all members, as `patronictl edit-config` does; members follow within seconds.

        Tried again and again: an etcd that has just come back may elect a leader of its own first.
        """
        deadline = time.monotonic() + START_S
        while True:
            try:
                return self._have(self.leader(), "PATCH", "/config", settings)
            except (subprocess.CalledProcessError, RuntimeError):
                if time.monotonic() > deadline:
                    raise
            time.sleep(1.0)

    def processes(self, host: str) -> list[psutil.Process]:
        """Give the processes of one host's PostgreSQL, the first of them its parent."""
        pidfile = self._folder / host / "postgres" / "postmaster.pid"
        parent = psutil.Process(int(pidfile.read_text().split()[0]))
        return [parent, *parent.children(recursive=True)]

    def _have(self, host: str, method: str, path: str, body: dict[str, Any]) -> None:
        """Have one host's Patroni do something, asked from that host. Raises `CalledProcessError`."""
        script = (
            "import http.client,sys\n"
            f"c=http.client.HTTPConnection({self._network.addresses[host]!r},{REST_PORT},timeout=60)\n"
            f"c.request({method!r},{path!r},{json.dumps(body)!r})\n"
            "a=c.getresponse();sys.exit(0 if a.status==200 else a.read().decode())"
        )
        argv = (*self._network.enter(host), sys.executable, "-c", script)
        subprocess.run(argv, check=True, capture_output=True, timeout=90)

    def freeze_all(self) -> None:
        """Stop every process of the store in its tracks: nobody answers, and nobody is told."""
        self._signal_all(signal.SIGSTOP)

    def thaw_all(self) -> None:
        """Let them go on."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        """PostgreSQL's processes are each in a session of their own."""
        roots = [part.pid for part in (*self.patroni.values(), *self.etcd.values()) if part.runs()]
        roots += [int(file.read_text().split()[0]) for file in self._folder.glob("*/postgres/postmaster.pid")]
        for root in roots:
            process = psutil.Process(root)
            for one in (process, *process.children(recursive=True)):
                one.send_signal(number)

    def _make(self, name: str) -> None:
        own = self._folder / name
        self.disks[name] = self._mounts.enter_context(SmallDisk(own / "postgres", mib=DISK_MIB))
        for part in ("etcd", "postgres", "run"):
            (own / part).mkdir(parents=True, exist_ok=True)
            (own / part).chmod(0o700)
            shutil.chown(own / part, USER, USER)
        enter = (*self._network.enter(name), "--")
        etcd = etcd_environment(self._cluster, name, data_dir=str(own / "etcd"), certificates=None)
        self.etcd[name] = Part((*enter, "etcd"), log=own / "etcd.log", env=_environment(etcd), user=USER)
        postgres = Postgres(
            network=self.postgres.network,
            data_dir=str(own / "postgres"),
            bin_dir=str(self._binaries),
            socket_dir=str(own / "run"),
        )
        conf = own / "patroni.yml"
        conf.write_text(patroni_yaml(self._cluster, name, postgres, certificates=None))
        secrets = patroni_environment(superuser=PASSWORD, replication=PASSWORD, rewind=PASSWORD)
        env = {**_environment(secrets), "HOME": str(own / "run")}
        self.patroni[name] = Part((*enter, str(self._program), str(conf)), log=own / "patroni.log", env=env, user=USER)

    def run(self, host: str, statement: str) -> None:
        """Run a statement on one host's server, as its superuser. Raises `CalledProcessError`."""
        psql = str(self._binaries / "psql")
        words = (psql, "-h", str(self._folder / host / "run"), "-d", "postgres", "-c", statement)
        user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups")
        subprocess.run((*self._network.enter(host), *user, *words), check=True, capture_output=True, timeout=30)

    def _make_database(self) -> None:
        leader = self.leader()
        self.run(leader, f"CREATE ROLE {self.postgres.user} LOGIN PASSWORD '{PASSWORD}'")
        self.run(leader, f"CREATE DATABASE {self.postgres.database} OWNER {self.postgres.user}")

    def _end_postgres(self) -> None:
        """End servers whose Patroni was killed: they are in sessions of their own."""
        for pidfile in self._folder.glob("*/postgres/postmaster.pid"):
            pid = int(pidfile.read_text().split()[0])
            if str(pidfile.parent) in Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"):
                os.kill(pid, 9)


def _environment(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)
