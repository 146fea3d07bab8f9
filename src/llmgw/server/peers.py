"""What control planes say to each other over HTTP: whether one answers, a caller's request, gateways' demand."""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec

from llmgw.schema.demand import DemandReport
from llmgw.schema.errors import NoLeader
from llmgw.schema.floating import HostWord
from llmgw.schema.hand_over import StandbyWord
from llmgw.schema.value import Value

ASK_S = 1.0
"""Longest wait for a sign of life."""
FORWARD_S = 30.0
"""Longest wait for the leader's answer to a request that was forwarded."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
FORWARDED_BY = "x-llmgw-forwarded-by"
"""Names who forwarded a request: it is not forwarded a second time."""
DEMAND_PATH = "/peer/v1/demand"
HOST_PATH = "/peer/v1/host"
STANDBY_PATH = "/peer/v1/standby"
"""GET: what a standby says of itself. POST: have it leave the lease alone for `seconds`."""

_PASSED_ON = frozenset({"authorization", "content-type", "accept"})
_GIVEN_BACK = frozenset({"content-type", "cache-control", "www-authenticate"})


class _Leads(Value, frozen=True, kw_only=True):
    leader: str


class Alive(Value, frozen=True, kw_only=True):
    """What a control plane says of itself on `/healthz`."""

    holder: str = ""


class Answer(Value, frozen=True, kw_only=True):
    """The leader's answer to a request that was forwarded."""

    status: int
    headers: dict[str, str]
    body: bytes


class Peers:
    """A client of other control planes. Use `close` at the end."""

    def __init__(self, *, name: str) -> None:
        self._name = name
        self._session: aiohttp.ClientSession | None = None
        self.tls: ssl.SSLContext | None = None
        """What control planes with an `https` address are dialled with; default the system's. Set at first."""

    async def holder_at(self, api: str) -> str | None:
        """Ask who answers at `api`; `None` when nobody does within a second."""
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError, msgspec.MsgspecError):
            async with self._open().get(f"{api}/healthz", timeout=_within(ASK_S)) as answer:
                alive = msgspec.json.decode(await answer.content.read(4096), type=Alive)
                return alive.holder if answer.status == HTTPStatus.OK else None
        return None

    async def leader_at(self, api: str) -> str | None:
        """Ask who answers at `api` as a leader; `None` when nobody does within a second."""
        found = await self._ask(f"{api}/leader", _Leads)
        return None if found is None else found.leader

    async def host_word(self, api: str) -> HostWord | None:
        """Ask the control plane at `api` for its host's word on the floating address."""
        found: HostWord | None = await self._ask(api + HOST_PATH, HostWord)
        return found

    async def standby_word(self, api: str, *, secret: str) -> StandbyWord | None:
        """Ask the control plane at `api` whose agents ask it, and whether it would lead."""
        headers = {"authorization": f"Bearer {secret}"}
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError, msgspec.MsgspecError):
            async with self._open().get(api + STANDBY_PATH, headers=headers, timeout=_within(ASK_S)) as answer:
                if answer.status == HTTPStatus.OK:
                    return msgspec.json.decode(await _whole(answer), type=StandbyWord)
        return None

    async def ask_to_wait(self, api: str, seconds: float, *, secret: str) -> bool:
        """Have the control plane at `api` leave the lease alone for so long; False when it did not say yes."""
        headers = {"authorization": f"Bearer {secret}", "content-type": "application/json"}
        body = msgspec.json.encode({"seconds": seconds})
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with self._open().post(
                api + STANDBY_PATH, data=body, headers=headers, timeout=_within(ASK_S)
            ) as answer:
                return answer.status == HTTPStatus.OK
        return False

    async def forward(
        self, api: str, method: str, target: str, *, headers: Mapping[str, str], body: bytes, leader: str
    ) -> Answer:
        """Make a caller's request at the leader, with the caller's token, once.

        Raises `NoLeader` when it does not answer, saying whether anything can have been done.
        """
        sent = {name: value for name, value in headers.items() if name.lower() in _PASSED_ON}
        sent[FORWARDED_BY] = self._name
        try:
            async with self._open().request(
                method, api + target, data=body or None, headers=sent, timeout=_within(FORWARD_S), allow_redirects=False
            ) as answer:
                given = {name.lower(): value for name, value in answer.headers.items() if name.lower() in _GIVEN_BACK}
                return Answer(status=answer.status, headers=given, body=await _whole(answer))
        except aiohttp.ClientConnectorError as error:
            raise NoLeader(
                f"nothing was changed: {leader} leads, and cannot be reached at {api}",
                hint="if it is dead another one leads within seconds: try again then",
            ) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoLeader(
                f"{leader} did not answer at {api}: whether the request was carried out is not known",
                hint="look before you repeat it",
            ) from error

    async def report(self, api: str, reports: Sequence[DemandReport], *, secret: str) -> bool:
        """Tell the leader what gateways said here; False when it did not take it."""
        headers = {"authorization": f"Bearer {secret}", "content-type": "application/json"}
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with self._open().post(
                api + DEMAND_PATH, data=msgspec.json.encode(reports), headers=headers, timeout=_within(ASK_S)
            ) as answer:
                return answer.status == HTTPStatus.OK
        return False

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _ask(self, url: str, kind: type[Any]) -> Any:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError, msgspec.MsgspecError):
            async with self._open().get(url, timeout=_within(ASK_S), allow_redirects=False) as answer:
                if answer.status == HTTPStatus.OK:
                    return msgspec.json.decode(await answer.content.read(4096), type=kind)
        return None

    def _open(self) -> aiohttp.ClientSession:
        # At the first use: it wants to be made on the loop it runs on.
        if self._session is None:
            self._session = aiohttp.ClientSession(
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                connector=aiohttp.TCPConnector(ssl=self.tls if self.tls is not None else True),
            )
        return self._session


def _within(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds)


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise aiohttp.ClientPayloadError("the answer is too large")
    await asyncio.sleep(0)
    return bytes(body)
