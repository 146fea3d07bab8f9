"""The join path of a control plane: introduces the authority, then takes one request for a certificate."""

import asyncio
from typing import Protocol

import msgspec
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from llmgw.link.identity import Holder
from llmgw.link.server import close, peer_address
from llmgw.schema.join import Declined, Introduction, Join, Joined, JoinRequest, Renew
from llmgw.schema.link import Refused
from llmgw.telemetry import log
from llmgw.telemetry.ration import Ration

REQUEST_S = 10.0
"""Seconds for who joins to check the introduction and ask."""

_log = log.get(__name__)
_decoder = msgspec.json.Decoder(JoinRequest)


class JoinSide(Protocol):
    """Decides about requests for certificates."""

    def introduction(self) -> Introduction | None:
        """Give the authority; `None` while it is not known."""

    async def join(self, request: Join) -> Joined | Declined | Refused:
        """Decide about a join token and its request."""

    async def renew(self, request: Renew, holder: Holder) -> Joined | Declined | Refused:
        """Decide about a request in the name of a certificate."""


class JoinPath:
    """Serves connections on the join path; see `AgentListener`."""

    def __init__(self, side: JoinSide) -> None:
        self._side = side
        self._ration = Ration()

    async def __call__(self, connection: ServerConnection, holder: Holder | None) -> None:
        """Serve one connection: one request, one answer."""
        peer = peer_address(connection)
        try:
            async with asyncio.timeout(REQUEST_S):
                answer = await self._answer(connection, holder)
                if isinstance(answer, Declined | Refused):
                    who = str(holder.identity) if holder is not None else None
                    self._tell("join.refused", peer=peer, holder=who, reason=answer.reason)
                await connection.send(msgspec.json.encode(answer).decode())
        except (TimeoutError, ConnectionClosed):
            self._tell("join.left", peer=peer)
        await close(connection, "one request a connection")

    def _tell(self, event: str, **fields: str | None) -> None:
        untold = self._ration.take()
        if untold is not None:
            _log.warning(event, untold=untold, **fields)

    async def _answer(self, connection: ServerConnection, holder: Holder | None) -> Joined | Declined | Refused:
        introduction = self._side.introduction()
        if introduction is None:
            return Refused(reason="this control plane does not know the cluster's authority yet; try again")
        await connection.send(msgspec.json.encode(introduction).decode())
        try:
            request = _decoder.decode(await connection.recv())
        except (msgspec.MsgspecError, RecursionError):
            return Declined(reason="this is no request for a certificate")
        if isinstance(request, Join):
            return await self._side.join(request)
        if holder is None:
            return Declined(reason="only the holder of a certificate may renew it")
        return await self._side.renew(request, holder)
