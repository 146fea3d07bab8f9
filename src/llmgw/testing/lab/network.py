"""Hosts as network namespaces on one bridge. Cables can be pulled, and single paths cut. Needs root and iproute2."""

import contextlib
import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Self

SUBNET = "10.77.0"
"""A network of the namespaces alone: nothing of it is routed anywhere."""


def missing() -> str | None:
    """Say why there can be no laboratory here; `None` when there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    absent = [name for name in ("ip", "iptables", "nsenter") if shutil.which(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    try:
        with Network(()):
            return None
    except subprocess.CalledProcessError as error:
        return f"network namespaces cannot be made here: {error.stderr.strip()}"


class Network:
    """One bridge in a namespace of its own and a namespace per host. Use as a context."""

    def __init__(self, hosts: tuple[str, ...]) -> None:
        self._tag = f"lg{secrets.token_hex(2)}"
        self.hosts = hosts
        self.addresses = {name: f"{SUBNET}.{11 + number}" for number, name in enumerate(hosts)}

    def __enter__(self) -> Self:
        self._ip("netns", "add", self._tag)
        try:
            self._in(self._tag, "link", "add", "bridge", "type", "bridge")
            self._in(self._tag, "link", "set", "bridge", "up")
            for number, name in enumerate(self.hosts):
                self._connect(name, number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for space in (*(self.namespace(name) for name in self.hosts), self._tag):
            with contextlib.suppress(subprocess.CalledProcessError):
                self._ip("netns", "del", space)

    def namespace(self, host: str) -> str:
        """Name a host's namespace."""
        return f"{self._tag}-{host}"

    def enter(self, host: str) -> tuple[str, ...]:
        """Give the words before a command that make it run on a host."""
        return ("nsenter", f"--net=/run/netns/{self.namespace(host)}")

    def unplug(self, host: str) -> None:
        """Pull a host's cable: nobody is told, packets just end."""
        self._in(self._tag, "link", "set", f"port{self.hosts.index(host)}", "down")

    def plug(self, host: str) -> None:
        """Put the cable back."""
        self._in(self._tag, "link", "set", f"port{self.hosts.index(host)}", "up")

    def cut(self, one: str, other: str) -> None:
        """Drop what two hosts send to each other; both still reach everybody else."""
        for here, there in ((one, other), (other, one)):
            self.drop(here, "OUTPUT", "-d", self.addresses[there])

    def mend(self, one: str, other: str) -> None:
        """End a cut."""
        for here, there in ((one, other), (other, one)):
            self.let(here, "OUTPUT", "-d", self.addresses[there])

    def drop(self, host: str, chain: str, *what: str) -> None:
        """Have a host drop packets that match, in iptables' words."""
        _run(*self.enter(host), "iptables", "-w", "-I", chain, *what, "-j", "DROP")

    def let(self, host: str, chain: str, *what: str) -> None:
        """Have it drop them no longer."""
        _run(*self.enter(host), "iptables", "-w", "-D", chain, *what, "-j", "DROP")

    def _connect(self, name: str, number: int) -> None:
        space = self.namespace(name)
        self._ip("netns", "add", space)
        self._in(self._tag, "link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", space)
        self._in(self._tag, "link", "set", f"port{number}", "master", "bridge", "up")
        self._in(space, "address", "add", f"{self.addresses[name]}/24", "dev", "eth0")
        self._in(space, "link", "set", "eth0", "up")
        self._in(space, "link", "set", "lo", "up")

    def _in(self, space: str, *words: str) -> None:
        self._ip("-n", space, *words)

    @staticmethod
    def _ip(*words: str) -> None:
        _run("ip", *words)


def has_address(network: Network, host: str, address: str) -> bool:
    """Say whether a host's kernel has an address."""
    told = _run(*network.enter(host), "ip", "-o", "address", "show", "dev", "eth0")
    return f" {address}/" in told


def _run(*argv: str) -> str:
    path = Path(shutil.which(argv[0]) or argv[0])
    done = subprocess.run([path, *argv[1:]], check=True, capture_output=True, text=True, timeout=20)
    return done.stdout
