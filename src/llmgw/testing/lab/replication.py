"""Replication that is cut while everybody else still reaches the primary: what is acknowledged then may be lost."""

import pwd
import socket
import sys
from pathlib import Path
from typing import Self

from llmgw.install.patroni import POSTGRES_PORT
from llmgw.testing.lab.database import USER, Database
from llmgw.testing.lab.network import Network


class ReplicationCut:
    """Nothing comes from `primary` to its standbys any more, and they cannot connect anew. Use as a context.

    Control planes on the standbys' hosts run as another user, and go on.
    """

    def __init__(self, network: Network, database: Database, primary: str, standbys: tuple[str, ...]) -> None:
        self._network = network
        self._database = database
        self._primary = primary
        self._standbys = standbys
        self._rules: list[tuple[str, ...]] = []

    def __enter__(self) -> Self:
        address = self._network.addresses[self._primary]
        for host in self._standbys:
            ports = self._receiving(host)
            if not ports:
                raise RuntimeError(f"{host} receives nothing from {self._primary}")
            for port in ports:
                # What comes, not only what goes: without its answers alone a stream still goes on for a while.
                self._drop(host, "INPUT", "-s", address, "-p", "tcp", "--dport", str(port))
            owner = ("-m", "owner", "--uid-owner", USER)
            self._drop(host, "OUTPUT", *owner, "-d", address, "-p", "tcp", "--dport", str(POSTGRES_PORT))
        return self

    def __exit__(self, *_: object) -> None:
        for rule in self._rules:
            self._network.let(*rule)

    def _drop(self, *rule: str) -> None:
        self._network.drop(*rule)
        self._rules.append(rule)

    def _receiving(self, host: str) -> list[int]:
        """Give the ports from which the host's PostgreSQL is connected to the primary's, as the kernel lists them."""
        owner = str(pwd.getpwnam(USER).pw_uid)
        postmaster = self._database.processes(host)[0]
        rows = [line.split() for line in Path(f"/proc/{postmaster.pid}/net/tcp").read_text().splitlines()[1:]]
        return [
            int(row[1].partition(":")[2], 16)
            for row in rows
            if row[7] == owner and row[2] == _kernels(self._network.addresses[self._primary], POSTGRES_PORT)
        ]


def _kernels(address: str, port: int) -> str:
    """Write an address as /proc/net/tcp does: the four bytes as the machine's number, in hex."""
    return f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}:{port:04X}"
