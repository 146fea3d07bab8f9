"""A fake agent over the real link: a `FakeNode` on a WebSocket. For tests of the listener, and for demos."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from llmgw.schema.link import LogReply, LogRequest, Order, Refused, ServerMessage, Welcome
from llmgw.testing.fake_node import FakeNode

HEARTBEAT_S = 1.0
START_S = 0.02
"""Pause between two looks at the fake engines: a start takes about so long."""

_decoder = msgspec.json.Decoder(ServerMessage)
_encoder = msgspec.json.Encoder()


class FakeAgent:
    """One agent: connects once and relays until its stream ends. It does not reconnect; call `run` again for that."""

    def __init__(self, node: FakeNode, *, address: str, token: str) -> None:
        self.node = node
        self.welcome: Welcome | None = None
        self.refused: Refused | None = None
        self._url = f"ws://{address}/agent/v1"
        self._token = token

    async def run(self) -> None:
        """Connect, say hello, obey, report; ends with the stream, or when refused (see `refused`)."""
        async with self._stream() as stream:
            if not await self._greet(stream):
                return
            async with asyncio.TaskGroup() as group:
                reporting = group.create_task(self._report(stream))
                await self._listen(stream)
                reporting.cancel()

    @contextlib.asynccontextmanager
    async def _stream(self) -> AsyncIterator[ClientConnection]:
        async with connect(self._url, compression=None, ping_interval=None, close_timeout=0.5) as stream:
            yield stream

    async def _greet(self, stream: ClientConnection) -> bool:
        self.welcome = self.refused = None
        await stream.send(_encoder.encode(self.node.hello(self._token)).decode())
        try:
            answer = _decoder.decode(await stream.recv())
        except ConnectionClosed:
            return False
        match answer:
            case Welcome():
                self.welcome = answer
            case Refused():
                self.refused = answer
            case _:
                raise AssertionError(f"the first answer is neither a welcome nor a refusal: {answer}")
        return self.welcome is not None

    async def _listen(self, stream: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                match _decoder.decode(await stream.recv()):
                    case Order(state=state):
                        refusal = self.node.obey(state)
                        await _send(stream, refusal or self.node.heartbeat())
                    case LogRequest() as request:
                        text = f"log of {request.shard}\n"[-request.tail_bytes :]
                        await _send(stream, LogReply(id=request.id, text=text, attempt=request.attempt or 1))
                    case _:
                        pass

    async def _report(self, stream: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            loop = asyncio.get_running_loop()
            due = loop.time()
            while True:
                if self.node.step() or loop.time() >= due:
                    await _send(stream, self.node.heartbeat())
                    due = loop.time() + HEARTBEAT_S
                await asyncio.sleep(START_S)


async def _send(stream: ClientConnection, message: msgspec.Struct) -> None:
    await stream.send(_encoder.encode(message).decode())
