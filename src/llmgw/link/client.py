"""The agent's side of the agent link: one stream to a control plane, dialled again whenever it ends.

What is said over it is its owner's business. Nothing is kept for later: each new stream starts with a `Hello` that
holds everything, so a message that finds no stream is dropped.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from llmgw.link.identity import TlsIdentity, peer_identity
from llmgw.link.messages import Messages
from llmgw.link.rounds import Rounds, redial_delay
from llmgw.ports import Clock
from llmgw.schema.identity import Part
from llmgw.schema.link import AgentMessage, Hello, Ping, Refused, ServerMessage, Welcome
from llmgw.telemetry import log

PATH = "/agent/v1"
PING_S = 5.0
DEAD_S = 15.0
"""Seconds without a byte after which a stream is dead: TCP alone never notices an unplugged peer."""
DIAL_S = 3.0
"""Seconds for a connection, and again for the answer to the hello."""
CLOSE_S = 0.5
MAX_MESSAGE = 64 * 1024 * 1024

_log = log.get(__name__)
_messages: Messages[ServerMessage] = Messages(msgspec.json.Decoder(ServerMessage))
_encoder = msgspec.json.Encoder()


class AgentSide(Protocol):
    """What the link's owner does. No method may block."""

    def addresses(self) -> Sequence[str]:
        """Control planes to dial, `host:port`, the preferred ones first. Read before each round."""

    def hello(self) -> Hello:
        """Everything about this node now. Raises `OSError` when the token cannot be read."""

    def welcomed(self, welcome: Welcome) -> None:
        """A control plane took us on."""

    def received(self, message: ServerMessage) -> None:
        """A message other than `Ping`, `Welcome` and `Refused` came."""


class AgentConnection:
    """Keeps one stream open to whichever control plane takes this agent on."""

    def __init__(self, side: AgentSide, clock: Clock, tls: TlsIdentity | None = None) -> None:
        """`tls`: who this node is, where the control planes ask for certificates."""
        self._tls = None if tls is None else tls.dialling()
        self._side = side
        self._clock = clock
        self._stream: ClientConnection | None = None
        self._told: dict[str, str] = {}

    @property
    def connected(self) -> bool:
        """True while a control plane has taken us on."""
        return self._stream is not None

    async def run(self) -> None:
        """Dial, relay, dial again; until cancelled."""
        alone_since = self._clock.monotonic()
        rounds = Rounds()
        while True:
            rounds.begin(self._side.addresses(), self._clock.monotonic())
            while (address := rounds.next()) is not None:
                if await self._attempt(address, rounds):
                    rounds.served(address)
                    alone_since = self._clock.monotonic()
            jitter = random.random()  # noqa: S311 - spreads agents, keeps no secret
            await asyncio.sleep(redial_delay(self._clock.monotonic() - alone_since, jitter))

    async def send(self, message: AgentMessage) -> bool:
        """Send on the open stream. False, and the message dropped, when there is none."""
        stream = self._stream
        if stream is None:
            return False
        try:
            async with asyncio.timeout(DEAD_S):
                await stream.send(_encoder.encode(message).decode())
        except TimeoutError:
            stream.transport.abort()
            return False
        except WebSocketException:
            return False
        return True

    async def _attempt(self, address: str, rounds: Rounds) -> bool:
        """Serve one stream. True when we were taken on; else `rounds` is told why not."""
        try:
            async with connect(
                f"{'ws' if self._tls is None else 'wss'}://{address}{PATH}",
                **self._secured(),
                compression=None,
                ping_interval=None,
                open_timeout=DIAL_S,
                close_timeout=CLOSE_S,
                max_size=MAX_MESSAGE,
                user_agent_header=None,
                proxy=None,
            ) as stream:
                self._check_peer(stream)
                answer = await self._greet(stream)
                if isinstance(answer, Refused):
                    self._trouble(address, f"refused: {answer.reason}")
                    if answer.leader is not None:
                        rounds.leads(answer.leader)
                    return False
                await self._serve(stream, answer, address)
        except TimeoutError:
            self._trouble(address, f"no answer within {DIAL_S:g} s")
            rounds.hung(address, self._clock.monotonic())
            return False
        except (OSError, WebSocketException, msgspec.MsgspecError) as error:
            self._trouble(address, str(error) or type(error).__name__)
            return False
        return True

    def _secured(self) -> dict[str, Any]:
        if self._tls is None:
            return {}
        return {"ssl": self._tls, "ssl_handshake_timeout": DIAL_S, "ssl_shutdown_timeout": CLOSE_S}

    def _check_peer(self, stream: ClientConnection) -> None:
        """Raise `OSError` unless the other end is a control plane: nodes and gateways have certificates too."""
        if self._tls is None:
            return
        found = peer_identity(stream.transport.get_extra_info("ssl_object"))
        if found is None or found.part is not Part.SERVER:
            raise OSError(f"the other end is {found or 'nobody of this cluster'} by its certificate, no control plane")

    async def _greet(self, stream: ClientConnection) -> Welcome | Refused:
        await stream.send(_encoder.encode(self._side.hello()).decode())
        async with asyncio.timeout(DIAL_S):
            answer = _messages.read(await stream.recv())
        if isinstance(answer, Welcome | Refused):
            return answer
        raise msgspec.ValidationError("the first message of a control plane must be welcome or refused")

    async def _serve(self, stream: ClientConnection, welcome: Welcome, address: str) -> None:
        self._told.clear()
        _log.info("link.connected", server=address, epoch=welcome.epoch)
        self._stream = stream
        self._side.welcomed(welcome)
        pinging = asyncio.create_task(self._ping(stream))
        try:
            await self._receive(stream)
            reason = f"not a byte in {DEAD_S:.0f} s"
        except (OSError, WebSocketException, msgspec.MsgspecError) as error:
            reason = str(error)
        finally:
            self._stream = None
            pinging.cancel()
            stream.transport.abort()
        _log.warning("link.lost", server=address, reason=reason)

    async def _receive(self, stream: ClientConnection) -> None:
        """Hand messages on until the stream breaks (raises) or is silent for too long (returns)."""
        while True:
            try:
                async with asyncio.timeout(DEAD_S):
                    data = await stream.recv()
            except TimeoutError:
                return
            message = _messages.read(data)
            if not isinstance(message, Ping | Welcome | Refused):
                self._side.received(message)

    async def _ping(self, stream: ClientConnection) -> None:
        text = _encoder.encode(Ping()).decode()
        while True:
            await asyncio.sleep(PING_S)
            try:
                await stream.send(text)
            except WebSocketException:
                return

    def _trouble(self, address: str, problem: str) -> None:
        """Tell a problem once, not at each of the many dials it may last for."""
        if self._told.get(address) != problem:
            self._told[address] = problem
            _log.warning("link.refused", server=address, problem=problem)
