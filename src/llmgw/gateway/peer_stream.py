"""A master's stream to one other master: dialled for ever, and told whatever is new."""

import asyncio
import random
import ssl
from typing import Protocol, cast

from llmgw.config.tls import split_address
from llmgw.gateway.peer_news import Position
from llmgw.link.frames import pack
from llmgw.relay.tls import ClientTls
from llmgw.schema.errors import InvalidInput
from llmgw.schema.peer import PeerHello
from llmgw.schema.view import Peer
from llmgw.telemetry import log as logs

CONNECT_S = 2.0
SEND_S = 3.0
"""Seconds a peer may take to read: what it does not know by then is out of date."""
BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 2.0

log = logs.get(__name__)


class News(Protocol):
    """What there is to tell."""

    def all(self) -> tuple[bytes, Position]:
        """Give all of it, as it goes over the wire, and how far it goes."""

    async def next(self, after: Position) -> tuple[bytes, Position]:
        """Wait for what is newer."""


class PeerStream:
    """Tells one peer. Nothing waits for it."""

    def __init__(self, peer: Peer, hello: PeerHello, news: News, *, tls: ClientTls | None) -> None:
        self.peer = peer
        self._hello = hello
        self._news = news
        self._tls = tls
        self._told = False
        self._taken = False

    async def run(self) -> None:
        """Dial, tell, and dial again, until cancelled."""
        wait_s = BACKOFF_FIRST_S
        while True:
            try:
                reader, writer = await self._dial()
            except (OSError, TimeoutError, InvalidInput) as error:
                self._lost(str(error) or "it did not answer in time")
            else:
                if await self._tell(reader, writer):
                    wait_s = BACKOFF_FIRST_S
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))  # noqa: S311 (jitter is no secret)
            wait_s = min(wait_s * 2, BACKOFF_MAX_S)

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = split_address(self.peer.address, field="peer_address")
        tls = self._tls
        async with asyncio.timeout(CONNECT_S):
            if tls is None:
                return await asyncio.open_connection(host, port)
            reader, writer = await asyncio.open_connection(host, port, ssl=tls.context, server_hostname="")
        why = tls.refuse(cast("ssl.SSLObject", writer.get_extra_info("ssl_object")), self.peer.name)
        if why is not None:
            writer.transport.abort()
            raise ConnectionRefusedError(f"it is refused: {why}")
        return reader, writer

    async def _tell(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Tell until the peer is gone: it says nothing itself, so whatever comes is its end. False: it took nothing."""
        self._taken = False
        ended = asyncio.ensure_future(reader.read(1))
        telling = asyncio.ensure_future(self._write(writer))
        try:
            done, _ = await asyncio.wait({ended, telling}, return_when=asyncio.FIRST_COMPLETED)
            self._lost("it closed the stream" if ended in done else "it did not read in time")
        finally:
            for task in (ended, telling):
                task.cancel()
            await asyncio.gather(ended, telling, return_exceptions=True)
            writer.transport.abort()
        return self._taken

    async def _write(self, writer: asyncio.StreamWriter) -> None:
        writer.write(pack(self._hello))
        frames, position = self._news.all()
        while True:
            writer.write(frames)
            async with asyncio.timeout(SEND_S):
                await writer.drain()
            frames, position = await self._news.next(position)
            if not self._taken:  # one that turns us away has done so by now
                log.info("peer.connected", peer=self.peer.name, address=self.peer.address)
                self._taken, self._told = True, False

    def _lost(self, reason: str) -> None:
        if not self._told:
            log.warning("peer.lost", peer=self.peer.name, address=self.peer.address, reason=reason)
        self._told = True
