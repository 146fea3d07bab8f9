"""The door put together: a relay in front of the node's engines, and the agent's socket behind it."""

import asyncio
import errno
import os
import socket
from pathlib import Path

import msgspec

from llmgw.config.contexts import replace_private
from llmgw.config.data_dir import make_data_dir
from llmgw.config.door import DoorConfig
from llmgw.config.tls import Tls, split_address
from llmgw.door.handler import Door, error_body
from llmgw.door.intake import Intake
from llmgw.door.shards import Shards
from llmgw.link.identity import TlsIdentity
from llmgw.link.peers import admitting
from llmgw.link.renewed import follow_renewals
from llmgw.relay.limits import Limits
from llmgw.relay.server import HttpServer
from llmgw.relay.tls import ServerTls
from llmgw.relay.upstream import UpstreamPool
from llmgw.schema.door import HTTPS, DoorAddress
from llmgw.schema.errors import InvalidInput
from llmgw.schema.identity import Part
from llmgw.telemetry import log
from llmgw.telemetry.clock import SystemClock

DRAIN_S = 30.0
"""Seconds running answers may still take once the door is asked to end."""
TELL_AGAIN_S = 1.0
_LIMITS = Limits(max_body_bytes=64 * 1024 * 1024)
"""Twice a gateway's own limit: gateways may rewrite a body."""
_LOG = log.get(__name__)


async def run_door(config: DoorConfig, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then drain. Raises `InvalidInput` for an address or folder that cannot be used."""
    data_dir = make_data_dir(config.data_dir)
    # The door is its node's: it has the identity that the agent's folder holds.
    identity = TlsIdentity(data_dir, join="llmgw agent join") if config.tls is Tls.ON else None
    tls = None if identity is None else ServerTls(identity.listening(), admitting(Part.GATEWAY))
    shards, pool = Shards(SystemClock()), UpstreamPool()
    server = HttpServer(Door(shards, pool), _LIMITS, error_body)
    intake = Intake(data_dir / "door.sock", shards)
    sock = _bind(config.listen)
    await intake.open()
    await server.serve(sock, tls)
    listen = _address(sock) if tls is None else f"{HTTPS}{_address(sock)}"
    telling = asyncio.create_task(_tell(data_dir / "door.json", DoorAddress(listen=listen, pid=os.getpid())))
    renewing = asyncio.create_task(follow_renewals(() if identity is None else (identity,)))
    _LOG.info("door.listening", listen=listen, wanted=config.listen)
    try:
        await stop.wait()
        _LOG.info("door.draining", exchanges=server.open_exchanges)
        await server.drain(DRAIN_S)
    finally:
        telling.cancel()
        renewing.cancel()
        server.close()
        pool.close()
        await intake.close()


async def _tell(path: Path, address: DoorAddress) -> None:
    """Write for the agent where the door listens; on a full disk once there is room."""
    told = False
    while True:
        try:
            return replace_private(path, msgspec.json.encode(address).decode())
        except OSError as error:
            if not told:
                _LOG.error("door.address_unsaved", path=str(path), error=str(error))
            told = True
        await asyncio.sleep(TELL_AGAIN_S)


def _bind(listen: str) -> socket.socket:
    """Take the wanted port, or a free one when somebody else has it."""
    host, port = split_address(listen, field="listen")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in (port, 0):
        try:
            return socket.create_server((host, candidate), family=family)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and candidate:
                continue
            raise InvalidInput(
                f"cannot listen on {listen}: {_cause(error)}",
                hint="give an address of this machine and a port this user may take",
                field="listen",
            ) from error
    raise AssertionError("port 0 is never in use")


def _cause(error: OSError) -> str:
    """Say it in the system's words: asyncio and socket add the address once more."""
    return os.strerror(error.errno) if error.errno else str(error)


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
