"""The master's stream to a control plane on this machine: the view comes in, demand and metrics go out.

It is tried again for ever: a gateway serves from the view it has.
"""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import msgspec

from llmgw.gateway.routes_view import ViewGap
from llmgw.link.frames import FrameError, pack, read_frame
from llmgw.schema.link import ControlMessage, GatewayHello, GatewayReport
from llmgw.telemetry import log as logs

CONNECT_S = 2.0
DEAD_S = 15.0
"""Seconds without a byte after which the stream is given up (the other side pings every 5 s)."""
BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 1.0

log = logs.get(__name__)

_DECODER: msgspec.json.Decoder[ControlMessage] = msgspec.json.Decoder(ControlMessage)


class ControlLink:
    """Keeps the stream. `take` gets each message and may raise `ViewGap`: then a fresh stream brings a snapshot."""

    def __init__(self, path: Path, hello: GatewayHello, take: Callable[[ControlMessage], None]) -> None:
        self._path = path
        self._hello = hello
        self._take = take
        self._writer: asyncio.StreamWriter | None = None
        self._told = False

    async def run(self) -> None:
        """Connect, listen, and connect again, until cancelled."""
        wait_s = BACKOFF_FIRST_S
        while True:
            try:
                await self._once()
                reason = "it closed the stream"
            except TimeoutError:
                reason = "it did not answer in time"
            except ViewGap as gap:
                reason = str(gap)
            except (OSError, FrameError, msgspec.MsgspecError) as error:
                reason = str(error)
            if self._writer is not None:
                wait_s = BACKOFF_FIRST_S
            self._lost(reason)
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))  # noqa: S311 (jitter is no secret)
            wait_s = min(wait_s * 2, BACKOFF_MAX_S)

    def report(self, message: GatewayReport) -> None:
        """Send a report, if there is somebody to send it to: the next one says it all again."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(pack(message))

    async def _once(self) -> None:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_unix_connection(str(self._path))
        try:
            writer.write(pack(self._hello))
            self._writer = writer
            log.info("control.connected", socket=str(self._path))
            self._told = False
            while True:
                async with asyncio.timeout(DEAD_S):
                    frame = await read_frame(reader)
                if frame is None:
                    return
                self._take(_DECODER.decode(frame))
        finally:
            writer.transport.abort()

    def _lost(self, reason: str) -> None:
        self._writer = None
        if not self._told:
            log.warning("control.lost", socket=str(self._path), reason=reason, note="serving on with the last view")
        self._told = True
