"""The master's stream to a control plane: the view comes in, demand and metrics go out.

It is tried again for ever, at each control plane in turn: a gateway serves from the view it has.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence

import msgspec

from llmgw.gateway.control_line import ControlLine
from llmgw.gateway.routes_view import ViewGap
from llmgw.link.frames import FrameError, pack, read_frame
from llmgw.link.messages import Messages
from llmgw.link.rounds import Rounds
from llmgw.schema.link import ControlMessage, GatewayHello, GatewayReport, Refused, RenewCertificate, ViewSnapshot
from llmgw.telemetry import log as logs

CONNECT_S = 2.0
VIEW_S = 6.0
"""Seconds until the first view, where there is another control plane to ask: one that has none says only that it is
there, every 5 s."""
DEAD_S = 15.0
"""Seconds without a byte after which the stream is given up (the other side pings every 5 s)."""
BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 1.0

log = logs.get(__name__)

_MESSAGES: Messages[ControlMessage] = Messages(msgspec.json.Decoder(ControlMessage))


class ControlLink:
    """Keeps the stream. `take` gets each message and may raise `ViewGap`: then a fresh stream brings a snapshot."""

    def __init__(
        self,
        lines: Sequence[ControlLine],
        hello: GatewayHello,
        take: Callable[[ControlMessage], None],
        *,
        view_s: float = VIEW_S,
    ) -> None:
        self._lines = {line.name: line for line in lines}
        self._hello = hello
        self._take = take
        self._view_s = view_s if len(lines) > 1 else None
        self._rounds = Rounds()
        self._writer: asyncio.StreamWriter | None = None
        self._viewed = False
        """A view came over this stream."""
        self._told: dict[str, str] = {}
        """Why each was lost, as it was told last."""

    async def run(self) -> None:
        """Connect, listen, and connect again, until cancelled."""
        wait_s = BACKOFF_FIRST_S
        while True:
            self._rounds.begin(tuple(self._lines), time.monotonic())
            while (name := self._rounds.next()) is not None:
                if await self._try(self._lines[name]):
                    wait_s = BACKOFF_FIRST_S
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))  # noqa: S311 (jitter is no secret)
            wait_s = min(wait_s * 2, BACKOFF_MAX_S)

    @property
    def connected(self) -> bool:
        """True while there is somebody to send to."""
        return self._writer is not None and not self._writer.is_closing()

    def send(self, message: GatewayReport | RenewCertificate) -> None:
        """Send a message, if there is somebody to send it to: the next one says it all again."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(pack(message))

    async def _try(self, line: ControlLine) -> bool:
        """Serve one stream to its end; True when it brought a view."""
        self._viewed = False
        try:
            await self._once(line)
            reason = "it closed the stream"
        except TimeoutError:
            reason = "it did not answer in time"
            if not self._viewed:
                self._rounds.hung(line.name, time.monotonic())
        except ViewGap as gap:
            reason = str(gap)
        except (OSError, FrameError, msgspec.MsgspecError) as error:
            reason = str(error)
        self._lost(line, reason)
        if self._viewed:
            self._rounds.served(line.name)
        return self._viewed

    async def _once(self, line: ControlLine) -> None:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await line.open()
        try:
            writer.write(pack(self._hello))
            self._writer = writer
            async with asyncio.timeout(self._view_s) as patience:
                while (frame := await _read(reader)) is not None:
                    message = _MESSAGES.read(frame)
                    if isinstance(message, Refused):
                        raise ConnectionRefusedError(f"it refuses this gateway: {message.reason}")
                    self._take(message)
                    if not self._viewed and isinstance(message, ViewSnapshot):
                        self._connected(line)
                        patience.reschedule(None)
        finally:
            self._writer = None
            writer.transport.abort()

    def _connected(self, line: ControlLine) -> None:
        self._viewed = True
        self._told.clear()
        log.info("control.connected", control=line.name)

    def _lost(self, line: ControlLine, reason: str) -> None:
        if self._told.get(line.name) != reason:
            log.warning("control.lost", control=line.name, reason=reason, note="serving on with the last view")
        self._told[line.name] = reason


async def _read(reader: asyncio.StreamReader) -> bytes | None:
    async with asyncio.timeout(DEAD_S):
        return await read_frame(reader)
