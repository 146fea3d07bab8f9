"""Binding addresses before anything else starts, with errors that name the address and the setting."""

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path

from llmgw.config.tls import split_address
from llmgw.schema.errors import Conflict, InvalidInput

MAX_UNIX_PATH = 107
"""Bytes of a Unix socket's path on Linux, `sun_path` less its end."""


def bind_tcp(address: str, *, field: str) -> socket.socket:
    """Bind `host:port`, not yet listening. Raises `Conflict` when it is in use, `InvalidInput` when it is not ours."""
    host, port = split_address(address, field=field)
    try:
        family, kind, protocol, _, resolved = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise InvalidInput(f"{field} = {address!r} cannot be resolved: {error.strerror}", field=field) from error
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(resolved)
        sock.listen(1024)
    except OSError as error:
        sock.close()
        raise _cannot(error, address, port, field) from error
    sock.setblocking(False)
    return sock


def bind_unix(path: Path, *, field: str) -> socket.socket:
    """Bind a Unix socket with mode 0600; one that a dead process left is replaced. Raises like `bind_tcp`."""
    if len(os.fsencode(path)) > MAX_UNIX_PATH:
        raise InvalidInput(
            f"{field} = {str(path)!r} is longer than a Unix socket's path may be ({MAX_UNIX_PATH} bytes)",
            hint="choose a shorter one",
            field=field,
        )
    _remove_stale(path, field)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Bound with the mode it keeps: a change of mode afterwards would leave a moment for others.
    before = os.umask(0o177)
    try:
        sock.bind(str(path))
        sock.listen(64)
    except OSError as error:
        sock.close()
        raise InvalidInput(f"{field} = {str(path)!r} cannot be bound: {error.strerror}", field=field) from error
    finally:
        os.umask(before)
    sock.setblocking(False)
    return sock


def _cannot(error: OSError, address: str, port: int, field: str) -> Conflict | InvalidInput:
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"port {port} is in use: {field} = {address!r} cannot be bound",
            hint=f"stop what listens there (ss -ltnp 'sport = :{port}' names it), or change {field}",
            field=field,
        )
    return InvalidInput(
        f"{field} = {address!r} cannot be bound: {error.strerror}",
        hint="use an address of this machine, and a port this user may bind",
        field=field,
    )


def _remove_stale(path: Path, field: str) -> None:
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise InvalidInput(
                f"{field} = {str(path)!r} exists and is no socket", hint="remove it, or choose another", field=field
            )
    except FileNotFoundError:
        return
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass
    raise Conflict(
        f"{field} = {str(path)!r} is in use by another control plane",
        hint=f"stop it first, or choose another {field}",
        field=field,
    )
