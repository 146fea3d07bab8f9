"""The agents' listener: WebSocket streams of JSON messages, separate from the HTTP server so that it can close at once.

It knows signs of life and message order; what messages mean is its handler's business, who may connect its gate's.
"""

import asyncio
import hmac
import itertools
import socket
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Protocol

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from llmgw.link.identity import Holder, holder_of
from llmgw.link.messages import Messages
from llmgw.schema.link import AgentMessage, Hello, Order, Ping, Refused, ServerMessage, Welcome
from llmgw.telemetry import log

PATH = "/agent/v1"
JOIN_PATH = "/join/v1"
PING_S = 5.0
DEAD_S = 15.0
"""Seconds without a byte after which a stream is dead: TCP alone never notices an unplugged peer."""
LATE_S = 0.1
"""Seconds that are left to a message that arrived while this process was too late to read it."""
HELLO_S = 5.0
CLOSE_S = 0.5
"""Seconds a closing stream may take before its connection is cut."""
MAX_MESSAGE = 16 * 1024 * 1024
"""A node with ten thousand weights stays below 4 MB."""
MAX_STRANGER = 64 * 1024
"""Bytes of a message of somebody without a certificate where there are some: a request for one stays below 2 kB."""
BACKLOG = 4096
"""Connections that may wait to be accepted: all agents come at once when a control plane takes over, and one that finds
the queue full comes again after a second, then two, then four (TCP's retransmission)."""
_MAX_REASON = 123
"""Bytes of a close frame's reason (RFC 6455, section 5.5)."""

_log = log.get(__name__)
_messages: Messages[AgentMessage] = Messages(msgspec.json.Decoder(AgentMessage))
_encoder = msgspec.json.Encoder()
TELL_S = 60.0
"""Seconds in which one node's refusal is told once: it dials again twice a second."""
MOST_TOLD = 200
"""Refusals told in that time: names of nodes are what whoever comes says they are."""
_MAX_NAME = 80
"""Characters of such a name in a log; those that are taken have 63 at most."""
_UNREADABLE = (msgspec.MsgspecError, RecursionError)
"""The second is for JSON nested deeper than any message."""


class AgentStream:
    """One agent's open stream, after its hello was accepted. Sending never waits; of several orders the last wins."""

    def __init__(self, connection: ServerConnection, *, node: str, number: int) -> None:
        self.node = node
        self.number = number
        """Unique per listener: which of a node's streams this is."""
        self._connection = connection
        self._order: Order | None = None
        self._others: deque[ServerMessage] = deque()
        self._wake = asyncio.Event()
        self._closing: str | None = None

    def send(self, message: ServerMessage) -> None:
        """Send a message soon; an order not sent yet is replaced by a newer one."""
        if isinstance(message, Order):
            self._order = message
        else:
            self._others.append(message)
        self._wake.set()

    def close(self, reason: str) -> None:
        """Close the stream at once, telling the agent why; messages not sent yet are dropped."""
        self._closing = reason
        self._wake.set()

    async def write(self) -> None:
        """Send what there is to send, and signs of life, until the stream is closed."""
        try:
            while self._closing is None:
                await self._pause()
                for message in self._take():
                    await self._connection.send(_encoder.encode(message).decode())
        except ConnectionClosed:
            return
        await close(self._connection, self._closing)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(PING_S):
                await self._wake.wait()
        except TimeoutError:
            self._others.append(Ping())

    def _take(self) -> list[ServerMessage]:
        self._wake.clear()
        if self._closing is not None:
            return []
        messages = list(self._others)
        self._others.clear()
        if self._order is not None:
            messages.append(self._order)
            self._order = None
        return messages


class AgentHandler(Protocol):
    """What the listener's owner does with agents. No method may block the loop."""

    async def settle(self, hello: Hello) -> None:
        """Wait while it may soon be known who leads; at most a few seconds."""

    def admit(self, hello: Hello) -> Welcome | Refused:
        """Decide about an agent whose token is right."""

    def opened(self, stream: AgentStream, hello: Hello) -> None:
        """A stream is open; an older one of the same node is to be closed."""

    def heard(self, stream: AgentStream) -> None:
        """Something came on the stream, whatever it was."""

    def said(self, stream: AgentStream, message: AgentMessage) -> None:
        """A message other than `Ping` and `Hello` came."""

    def closed(self, stream: AgentStream) -> None:
        """The stream is gone."""


class Gate(Protocol):
    """Who may connect as an agent."""

    def refuse(self, hello: Hello, holder: Holder | None) -> str | None:
        """Say why this agent may not; `None`: it may. `holder`: of the certificate its stream was opened with."""


class TokenGate:
    """Lets in who knows the cluster's one token: for machines whose network is trusted, or which are one."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def refuse(self, hello: Hello, holder: Holder | None) -> str | None:  # noqa: ARG002 - there are no certificates
        """Say why this agent may not connect; `None`: it may."""
        if hmac.compare_digest(hello.token.encode(), self._token):
            return None
        return "the token is not the one this control plane expects"


Joining = Callable[[ServerConnection, Holder | None], Awaitable[None]]
"""Serves one connection on the join path."""


class AgentListener:
    """Accepts agents on a socket and runs one stream for each."""

    def __init__(
        self,
        handler: AgentHandler,
        gate: Gate,
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
        joining: Joining | None = None,
    ) -> None:
        """`tls`, asked when it starts, takes connections without a certificate too: who joins has none yet.

        `joining` serves those.
        """
        self._handler = handler
        self._gate = gate
        self._tls = tls
        self._joining = joining
        self._numbers = itertools.count(1)
        self._server: Server | None = None
        self._told: dict[tuple[str, str], float] = {}
        self._open: dict[AgentStream, tuple[Hello, Holder | None]] = {}

    def look(self) -> None:
        """Look again who may be connected, and let the others go at once. To be called when that changed."""
        for stream, (hello, holder) in tuple(self._open.items()):
            reason = self._gate.refuse(hello, holder)
            if reason is not None:
                _log.warning("agent.refused", node=hello.node, reason=reason)
                stream.close(reason)

    async def start(self, sock: socket.socket) -> None:
        """Listen on a bound socket."""
        tls: dict[str, Any] = {}
        if self._tls is not None:
            # Both default to half a minute: a peer that hangs must hold up neither the listener nor its end.
            tls = {"ssl": self._tls(), "ssl_handshake_timeout": HELLO_S, "ssl_shutdown_timeout": CLOSE_S}
        self._server = await serve(
            self._accept,
            sock=sock,
            **tls,
            backlog=BACKLOG,
            process_request=self._refuse_path,
            compression=None,
            ping_interval=None,
            close_timeout=CLOSE_S,
            open_timeout=HELLO_S,
            max_size=MAX_MESSAGE,
            server_header=None,
        )

    async def stop(self) -> None:
        """Stop listening and cut what streams are left. Streams with a reason to tell are closed by the handler."""
        if self._server is not None:
            self._server.close(code=CloseCode.SERVICE_RESTART, reason="the control plane stops")
            await self._server.wait_closed()

    async def _accept(self, connection: ServerConnection) -> None:
        holder = holder_of(connection.transport.get_extra_info("ssl_object"))
        path = connection.request.path if connection.request is not None else PATH
        if path == JOIN_PATH and self._joining is not None:
            await self._joining(connection, holder)
        else:
            await self._serve(connection, holder)

    async def _serve(self, connection: ServerConnection, holder: Holder | None) -> None:
        hello = await self._hello(connection, holder)
        if hello is None:
            return
        await self._handler.settle(hello)
        answer = self._handler.admit(hello)
        try:
            await connection.send(_encoder.encode(answer).decode())
        except ConnectionClosed:
            return
        if isinstance(answer, Refused):
            await close(connection, answer.reason)
            return
        # It may have been removed since its hello: from here on `look` knows of it.
        reason = self._gate.refuse(hello, holder)
        if reason is not None:
            await close(connection, reason)
            return
        stream = AgentStream(connection, node=hello.node, number=next(self._numbers))
        self._handler.opened(stream, hello)
        self._open[stream] = (hello, holder)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(stream.write())
                await self._read(connection, stream)
                stream.close("the stream ended")
        finally:
            self._open.pop(stream, None)
            self._handler.closed(stream)

    async def _hello(self, connection: ServerConnection, holder: Holder | None) -> Hello | None:
        """Read the first message; closes the connection unless it is a hello of one who may connect."""
        peer = peer_address(connection)
        try:
            async with asyncio.timeout(HELLO_S):
                message = _messages.read(await connection.recv())
        except (TimeoutError, ConnectionClosed):
            return None
        except _UNREADABLE as error:
            _log.warning("agent.unreadable", peer=peer, error=str(error))
            await close(connection, "not a message of this protocol")
            return None
        if not isinstance(message, Hello):
            await close(connection, "the first message must be a hello")
            return None
        reason = self._gate.refuse(message, holder)
        if reason is not None:
            self._tell(peer, message.node, reason)
            await self._refuse(connection, Refused(reason=reason))
            return None
        return message

    def _tell(self, peer: str, node: str, reason: str) -> None:
        now = time.monotonic()
        self._told = {told: at for told, at in self._told.items() if now - at < TELL_S}
        node, reason = node[:_MAX_NAME], reason[: 4 * _MAX_NAME]
        if (node, reason) not in self._told and len(self._told) < MOST_TOLD:
            self._told[node, reason] = now
            _log.warning("agent.refused", peer=peer, node=node, reason=reason)

    def _refuse_path(self, connection: ServerConnection, request: Request) -> Response | None:
        if self._tls is not None and holder_of(connection.transport.get_extra_info("ssl_object")) is None:
            connection.protocol.max_message_size = MAX_STRANGER
        if request.path == PATH or (request.path == JOIN_PATH and self._joining is not None):
            return None
        return connection.respond(HTTPStatus.NOT_FOUND, f"agents connect to {PATH}\n")

    async def _refuse(self, connection: ServerConnection, refused: Refused) -> None:
        try:
            await connection.send(_encoder.encode(refused).decode())
        except ConnectionClosed:
            return
        await close(connection, refused.reason)

    async def _read(self, connection: ServerConnection, stream: AgentStream) -> None:
        """Hand messages on until the stream ends, is silent for too long or says what cannot be read."""
        while True:
            try:
                data = await _next(connection)
            except TimeoutError:
                _log.warning("agent.silent", node=stream.node, seconds=DEAD_S)
                return
            except ConnectionClosed:
                return
            self._handler.heard(stream)
            try:
                message = _messages.read(data)
            except _UNREADABLE as error:
                _log.warning("agent.unreadable", node=stream.node, error=str(error))
                return
            if not isinstance(message, Ping | Hello):
                self._handler.said(stream, message)


async def _next(connection: ServerConnection) -> str | bytes:
    """Wait for a message. Raises `TimeoutError` after too long a silence.

    A silence may be this process's own lateness: then what came meanwhile lies there to be read, and it was none.
    """
    try:
        async with asyncio.timeout(DEAD_S):
            return await connection.recv()
    except TimeoutError:
        async with asyncio.timeout(LATE_S):
            return await connection.recv()


async def close(connection: ServerConnection, reason: str) -> None:
    """Close a connection with a reason; cut it when the peer does not take part."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await connection.close(CloseCode.SERVICE_RESTART, _short(reason))
    except TimeoutError:
        connection.transport.abort()


def _short(reason: str) -> str:
    return reason.encode()[:_MAX_REASON].decode(errors="ignore")


def peer_address(connection: ServerConnection) -> str:
    """Give who is at the other end, for logs."""
    address = connection.remote_address
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)
