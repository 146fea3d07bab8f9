"""What gateways know of each other: each master tells all others its load and its placements, and hears theirs.

Each dials each, so there are two streams between two gateways, one for either way. Loads are told whole each time:
whoever missed something knows it a moment later, and nothing on the way of a request waits for any of it.
"""

import asyncio
import secrets
import socket
import time
from collections.abc import Callable

import msgspec

from llmgw.config.tls import is_loopback
from llmgw.gateway.peer_loads import PeerLoads
from llmgw.gateway.peer_news import PeerNews
from llmgw.gateway.peer_records import BadRecords, PeerLoad, unpack
from llmgw.gateway.peer_stream import PeerStream
from llmgw.gateway.worker_link import Placed
from llmgw.link.frames import FrameError, read_frame
from llmgw.link.identity import TlsIdentity, peer_identity
from llmgw.link.peers import expecting
from llmgw.relay.tls import ClientTls
from llmgw.schema.identity import Identity, Part
from llmgw.schema.peer import PeerHello
from llmgw.schema.view import Peer, View
from llmgw.telemetry import log as logs

HELLO_S = 5.0
"""Seconds for a handshake."""
SILENT_S = 5.0
"""Seconds without a frame after which a stream is given up: there is one each second."""

log = logs.get(__name__)

_HELLO = msgspec.json.Decoder(PeerHello)


class Peers:
    """The other gateways. Without `identity` streams are plain: to loopback only, unless `plain_anywhere`."""

    def __init__(
        self,
        name: str,
        *,
        version: str,
        identity: TlsIdentity | None,
        plain_anywhere: bool = False,
        known: Callable[[], list[Placed]] = list,
    ) -> None:
        self.news = PeerNews(known)
        """What they are told."""
        self.on_placed: Callable[[Placed], None] | None = None
        """Told of each placement that is heard."""
        self.on_load: Callable[[], None] = _nothing
        """Told when a load was heard."""
        self.loads = PeerLoads()
        """What they have at replicas."""
        self._hello = PeerHello(gateway=name, version=version, run=secrets.token_hex(8))
        self._listening = None if identity is None else identity.listening()
        self._dialling = None if identity is None else ClientTls(identity.dialling(), expecting(Part.GATEWAY))
        self._anywhere = identity is not None or plain_anywhere
        self._wanted: dict[str, Peer] = {}
        self._streams: dict[Peer, asyncio.Task[None]] = {}
        self._accepted: set[asyncio.Task[None]] = set()
        self._refused: set[str] = set()
        """Told already, since the view changed last."""
        self._woken = asyncio.Event()

    def take(self, view: View | None) -> None:
        """Take over which gateways there are."""
        listed = view.peers.peers if view is not None and view.peers is not None else ()
        wanted = {peer.name: peer for peer in listed if peer.name != self._hello.gateway}
        if wanted != self._wanted:
            self._wanted = wanted
            self._refused.clear()
            self._woken.set()

    def states(self, now: float) -> dict[str, int]:
        """Count the gateways of the view: those whose load is known, and those that are silent. `now`: monotonic."""
        known = len(self._wanted.keys() & set(self.loads.known(now)))
        return {"known": known, "silent": len(self._wanted) - known}

    async def run(self, sock: socket.socket) -> None:
        """Listen and dial until cancelled."""
        server = await asyncio.start_server(
            self._accept,
            sock=sock,
            ssl=self._listening,
            ssl_handshake_timeout=None if self._listening is None else HELLO_S,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.news.run())
                tasks.create_task(self._keep_dialling(tasks))
        finally:
            server.close()
            for task in self._accepted:
                task.cancel()
            await asyncio.gather(*self._accepted, return_exceptions=True)

    # Telling ------------------------------------------------------------------------------------------

    async def _keep_dialling(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            self._woken.clear()
            wanted = set(self._wanted.values())
            for peer in self._streams.keys() - wanted:
                self._streams.pop(peer).cancel()
            for peer in wanted - self._streams.keys():
                if self._may_dial(peer):
                    stream = PeerStream(peer, self._hello, self.news, tls=self._dialling)
                    self._streams[peer] = tasks.create_task(stream.run())
            await self._woken.wait()

    def _may_dial(self, peer: Peer) -> bool:
        if self._anywhere or is_loopback(peer.address.rpartition(":")[0].strip("[]")):
            return True
        log.warning("peer.not_dialled", peer=peer.name, address=peer.address, note='only with tls = "on" or "off"')
        return False

    # Hearing ------------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for the type checker: connections are served in tasks
        self._accepted.add(task)
        try:
            await self._hear(reader, writer)
        except (FrameError, BadRecords, msgspec.MsgspecError) as error:
            log.warning("peer.unreadable", error=str(error))
        except (OSError, TimeoutError) as error:
            log.info("peer.stream_broke", error=str(error))
        except asyncio.CancelledError:
            return  # this gateway stops; asyncio's streams would log a cancelled connection as an error
        finally:
            self._accepted.discard(task)
            writer.transport.abort()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frame = await _read(reader)
        if frame is None:
            return
        hello = _HELLO.decode(frame)
        why = self._refusal(hello, writer)
        if why is not None:
            self._turn_away(hello, why, writer)
            return
        while hello.gateway in self._wanted and (frame := await _read(reader)) is not None:
            heard = unpack(frame)
            if isinstance(heard, PeerLoad):
                self.loads.take(hello.gateway, hello.run, heard, at=time.monotonic())
                self.on_load()
            elif heard is not None and self.on_placed is not None:
                self.on_placed(heard)

    def _turn_away(self, hello: PeerHello, why: str, writer: asyncio.StreamWriter) -> None:
        if hello.gateway not in self._refused:
            address = writer.get_extra_info("peername")
            log.warning("peer.refused", peer=hello.gateway, address=address[0] if address else None, reason=why)
        self._refused.add(hello.gateway)

    def _refusal(self, hello: PeerHello, writer: asyncio.StreamWriter) -> str | None:
        if self._listening is not None:
            found = peer_identity(writer.get_extra_info("ssl_object"))
            if found != Identity(part=Part.GATEWAY, name=hello.gateway):
                return f"its certificate is of {found}"
        return None if hello.gateway in self._wanted else "the routing view knows no gateway of this name"


async def _read(reader: asyncio.StreamReader) -> bytes | None:
    async with asyncio.timeout(SILENT_S):
        return await read_frame(reader)


def _nothing() -> None:
    """Tell nobody."""
