"""What the agent says to its control plane: everything in the hello, then changes at once, and a beat now and then."""

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path

from llmgw.agent.obeyed import Obeyed
from llmgw.link.client import AgentConnection
from llmgw.schema.link import Heartbeat, Hello, LogReply, OrderRefused
from llmgw.schema.node import NodeFacts
from llmgw.schema.report import Load, ShardReport

COALESCE_S = 0.02
"""Changes that come together go out together."""


class Heart:
    """Composes and sends the agent's messages. One sender, so that they leave in order."""

    def __init__(
        self,
        *,
        node: str,
        token_file: Path | None,
        heartbeat_s: float,
        facts: Callable[[], NodeFacts],
        reports: Callable[[], tuple[ShardReport, ...]],
        obeyed: Callable[[], Obeyed],
        load: Callable[[], Load | None],
    ) -> None:
        self._node = node
        self._token_file = token_file
        self._heartbeat_s = heartbeat_s
        self._facts = facts
        self._reports = reports
        self._obeyed = obeyed
        self._load = load
        self._told: NodeFacts | None = None
        self._replies: deque[OrderRefused | LogReply] = deque()
        self._changed = asyncio.Event()

    def hello(self) -> Hello:
        """Compose the first message of a stream. Raises `OSError` when the token cannot be read."""
        token = "" if self._token_file is None else self._token_file.read_text().strip()
        self._told, obeyed = self._facts(), self._obeyed()
        self._replies.clear()
        return Hello(
            node=self._node,
            token=token,
            facts=self._told,
            shards=self._reports(),
            epoch=obeyed.epoch,
            holder=obeyed.holder,
            generation=obeyed.generation,
        )

    def changed(self) -> None:
        """Send a heartbeat soon: something is new."""
        self._changed.set()

    def reply(self, message: OrderRefused | LogReply) -> None:
        """Send an answer soon. It is dropped when the stream it answers on is gone."""
        self._replies.append(message)
        self._changed.set()

    async def run(self, connection: AgentConnection) -> None:
        """Send until cancelled."""
        while True:
            await self._pause()
            while self._replies:
                await connection.send(self._replies.popleft())
            if connection.connected:
                await self._beat(connection)

    async def _beat(self, connection: AgentConnection) -> None:
        facts = self._facts()
        news = facts if facts != self._told else None
        beat = Heartbeat(shards=self._reports(), generation=self._obeyed().generation, facts=news, load=self._load())
        if await connection.send(beat) and news is not None:
            self._told = news

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._heartbeat_s):
                await self._changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(COALESCE_S)
        self._changed.clear()
