"""How gateways alone on one machine find each other: a folder with a file for each, named as it, with its address."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from llmgw.schema.view import Peer, PeersSection, View
from llmgw.telemetry import log as logs

LOOK_S = 0.5
_LONGEST = 256

log = logs.get(__name__)


class PeerFolder:
    """`own` is put there while it runs. Whoever may write there may tell this gateway what others have."""

    def __init__(self, folder: Path, own: Peer) -> None:
        self._folder = folder
        self._own = own

    async def run(self, take: Callable[[View], None]) -> None:
        """Tell of all others, whenever they change, until cancelled."""
        file = self._folder / self._own.name
        file.write_text(self._own.address)
        known: tuple[Peer, ...] | None = None
        try:
            while True:
                found = tuple(self._look())
                if found != known:
                    known = found
                    log.info("peers.found", peers=[peer.name for peer in found], folder=str(self._folder))
                    take(View(source=str(self._folder), peers=PeersSection(version=1, peers=found)))
                await asyncio.sleep(LOOK_S)
        finally:
            with contextlib.suppress(OSError):
                if file.read_text() == self._own.address:
                    file.unlink()

    def _look(self) -> list[Peer]:
        """Read the addresses of the others; a file that is gone, or not written yet, is looked at next time."""
        found = []
        for file in sorted(self._folder.iterdir()):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                address = file.read_bytes()[:_LONGEST].decode().strip()
                if address and file.name != self._own.name:
                    found.append(Peer(name=file.name, address=address))
        return found
