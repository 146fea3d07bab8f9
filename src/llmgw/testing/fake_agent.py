"""A fake agent over the real link: a `FakeNode` on a WebSocket. For tests of the listener, and for demos."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from llmgw.link.client import DEAD_S
from llmgw.schema.link import Heartbeat, LogReply, LogRequest, Order, Refused, ServerMessage, Welcome
from llmgw.schema.node import NodeFacts
from llmgw.testing.fake_node import FakeNode

HEARTBEAT_S = 1.0
START_S = 0.02
"""How long a fake engine takes to start."""

_decoder = msgspec.json.Decoder(ServerMessage)
_encoder = msgspec.json.Encoder()


class FakeAgent:
    """One agent: connects once and relays until its stream ends. It does not reconnect; call `run` again for that."""

    def __init__(
        self,
        node: FakeNode,
        *,
        address: str,
        token: str,
        heartbeat_s: float = HEARTBEAT_S,
        start_s: float = START_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.node = node
        self._tls = tls
        self.welcome: Welcome | None = None
        self.welcomed = asyncio.Event()
        """Set at the first welcome, for good."""
        self.taken_on = asyncio.Event()
        """Set while a control plane has taken it on."""
        self.refused: Refused | None = None
        self.address = address
        """Whom it dials next. May be set."""
        self._token = token
        self._heartbeat_s = heartbeat_s
        self._start_s = start_s
        self._told: NodeFacts | None = None
        self._woken = asyncio.Event()
        self._awake = asyncio.Event()
        self._awake.set()

    async def run(self) -> None:
        """Connect, say hello, obey, report; ends with the stream, or when refused (see `refused`)."""
        self.taken_on.clear()
        self.welcome = self.refused = None
        async with self._stream() as stream:
            if not await self._greet(stream):
                return
            self.taken_on.set()
            async with asyncio.TaskGroup() as group:
                reporting = group.create_task(self._report(stream))
                await self._listen(stream)
                reporting.cancel()

    def freeze(self) -> None:
        """Neither read nor say anything from now on, as a process does that was stopped: the stream stays open."""
        self._awake.clear()

    def thaw(self) -> None:
        """Go on."""
        self._awake.set()

    def wake(self) -> None:
        """Report at once: something happened on the node."""
        self._woken.set()

    @contextlib.asynccontextmanager
    async def _stream(self) -> AsyncIterator[ClientConnection]:
        url = f"{'ws' if self._tls is None else 'wss'}://{self.address}/agent/v1"
        async with connect(
            url, ssl=self._tls, compression=None, ping_interval=None, close_timeout=0.5, proxy=None
        ) as stream:
            yield stream

    async def _greet(self, stream: ClientConnection) -> bool:
        self.welcome = self.refused = None
        hello = self.node.hello(self._token)
        self._told = hello.facts
        await stream.send(_encoder.encode(hello).decode())
        try:
            answer = _decoder.decode(await stream.recv())
        except ConnectionClosed:
            return False
        match answer:
            case Welcome():
                self.welcome = answer
                self.welcomed.set()
            case Refused():
                self.refused = answer
            case _:
                raise AssertionError(f"the first answer is neither a welcome nor a refusal: {answer}")
        return self.welcome is not None

    async def _listen(self, stream: ClientConnection) -> None:
        # A silent stream is dead, as for a real agent: a control plane that is frozen or unplugged closes nothing.
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            while True:
                async with asyncio.timeout(DEAD_S):
                    message = await stream.recv()
                await self._awake.wait()
                match _decoder.decode(message):
                    case Order(state=state):
                        refusal = self.node.obey(state)
                        await _send(stream, refusal or self._heartbeat())
                        self._woken.set()
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
                woken = await self._pause(due - loop.time())
                if self.node.starting():
                    await asyncio.sleep(self._start_s)
                await self._awake.wait()
                if self.node.step() or woken or loop.time() >= due:
                    await _send(stream, self._heartbeat())
                    due = loop.time() + self._heartbeat_s

    async def _pause(self, longest_s: float) -> bool:
        """Wait until woken; False when nothing happened for so long."""
        try:
            async with asyncio.timeout(max(0.0, longest_s)):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    def _heartbeat(self) -> Heartbeat:
        """Give a heartbeat without the facts where they were told already, as agents do."""
        beat = self.node.heartbeat()
        if beat.facts == self._told:
            return msgspec.structs.replace(beat, facts=None)
        self._told = beat.facts
        return beat


async def _send(stream: ClientConnection, message: msgspec.Struct) -> None:
    await stream.send(_encoder.encode(message).decode())
