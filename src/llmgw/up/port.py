"""Ports of this machine: free ones, and who holds a taken one."""

import socket

import psutil

from llmgw.schema.errors import Conflict

_ANY = "127.0.0.1"


def is_free(port: int) -> bool:
    """True when loopback `port` can be bound (a listener that just ended does not count)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_ANY, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def free_or_other(port: int) -> int:
    """Give `port` if it is free, else one the kernel picks."""
    if is_free(port):
        return port
    with socket.socket() as probe:
        probe.bind((_ANY, 0))
        picked: int = probe.getsockname()[1]
        return picked


def require_free(port: int, *, what: str, option: str) -> None:
    """Raise `Conflict` naming the port, who has it if known, and the option to change."""
    if is_free(port):
        return
    owner = holder(port)
    by = f" by {owner}" if owner else ""
    raise Conflict(f"port {port} for the {what} is taken{by}", hint=f"free it, or choose another with {option} PORT")


def holder(port: int) -> str | None:
    """Say who listens on `port`: `name (pid N)`; `None` when that cannot be seen."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for connection in connections:
        if connection.status != psutil.CONN_LISTEN or not connection.laddr or connection.pid is None:
            continue
        if connection.laddr.port != port:
            continue
        try:
            return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
        except psutil.Error:
            return f"pid {connection.pid}"
    return None
