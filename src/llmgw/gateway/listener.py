"""The gateway's listening socket: bound once by the master, shared by its workers."""

import errno
import socket
import time

from llmgw.config.tls import split_address
from llmgw.schema.errors import LlmgwError

_BACKLOG = 4096
_RETRY_S = 0.05


class CannotListen(LlmgwError):
    """The address cannot be listened on."""

    code = "cannot_listen"


def listen(address: str, *, patience_s: float = 1.5) -> socket.socket:
    """Bind and listen on `host:port`. Raises `CannotListen` naming the port and what to do.

    A taken port is tried for `patience_s`: the workers of a gateway that was just killed need a moment to let go.
    """
    host, port = split_address(address, field="listen")
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return _bind(host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < deadline:
                time.sleep(_RETRY_S)
                continue
            raise _explained(host, port, error) from error


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(place)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _explained(host: str, port: int, error: OSError) -> CannotListen:
    if error.errno == errno.EADDRINUSE:
        return CannotListen(
            f"the gateway cannot listen on {host}:{port}: port {port} is taken by another program",
            hint=f"`ss -ltnp 'sport = :{port}'` names it; stop it, or give the gateway another port",
        )
    if error.errno == errno.EACCES:
        return CannotListen(
            f"the gateway cannot listen on {host}:{port}: this user may not bind port {port}",
            hint="use a port above 1023, or allow it with CAP_NET_BIND_SERVICE",
        )
    return CannotListen(
        f"the gateway cannot listen on {host}:{port}: {error.strerror or error}",
        hint='give an address of this machine as listen = "host:port"',
    )
