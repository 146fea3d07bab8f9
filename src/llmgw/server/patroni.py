"""Asking Patroni's REST of each member, each with a deadline of its own: who does not answer in time is unknown."""

import asyncio
import ssl
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from llmgw.schema.store import Listed, PatroniWord
from llmgw.schema.value import Value

DEADLINE_S = 1.0
MOST_BYTES = 256 * 1024


class _Row(Value, frozen=True, kw_only=True):
    """A member in Patroni's list."""

    name: str
    role: str
    host: str = ""
    port: int | None = None
    api_url: str = ""
    lag: int | str | None = None
    """Bytes, or words where Patroni does not know."""


class _List(Value, frozen=True, kw_only=True):
    members: tuple[_Row, ...] = ()


class _Own(Value, frozen=True, kw_only=True):
    state: str
    role: str


class Address(Value, frozen=True, kw_only=True):
    """Where one member is reached."""

    name: str
    host: str
    rest: str
    """Root of its Patroni's REST."""
    port: int
    """Of its PostgreSQL."""


class PatroniClient:
    """Speaks with the Patronis of one cluster. `context` is for `https` addresses."""

    def __init__(self, *, context: ssl.SSLContext | None = None, deadline_s: float = DEADLINE_S) -> None:
        self._context = context
        self._deadline_s = deadline_s

    async def members(self, rest: str) -> dict[Address, Listed] | None:
        """Ask the Patroni at `rest` for all members it knows; `None` when it does not answer."""
        told = await self._get(rest, "cluster", _List)
        if told is None:
            return None
        return {_address(row): Listed(role=row.role, lag=_lag(row)) for row in told.members}

    async def word(self, rest: str) -> PatroniWord | None:
        """Ask the Patroni at `rest` for itself; `None` when it does not answer."""
        own, alive = await asyncio.gather(self._get(rest, "patroni", _Own), self._status(rest, "liveness"))
        if own is None:
            return None
        return PatroniWord(role=own.role, state=own.state, alive=alive == HTTPStatus.OK)

    async def _get(self, rest: str, path: str, kind: type[Any]) -> Any:
        found = await self._ask(rest, path)
        if found is None:
            return None
        try:
            return msgspec.json.decode(found[1], type=kind)
        except msgspec.DecodeError:
            return None

    async def _status(self, rest: str, path: str) -> int | None:
        found = await self._ask(rest, path)
        return None if found is None else found[0]

    async def _ask(self, rest: str, path: str) -> tuple[int, bytes] | None:
        connector = aiohttp.TCPConnector(force_close=True, ssl=self._context or True)
        try:
            async with (
                asyncio.timeout(self._deadline_s),
                aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session,
                session.get(URL(rest) / path, allow_redirects=False) as answer,
            ):
                return answer.status, await answer.content.read(MOST_BYTES)
        except (TimeoutError, aiohttp.ClientError, OSError):
            return None


def _address(row: _Row) -> Address:
    rest = str(URL(row.api_url).origin()) if row.api_url else ""
    return Address(name=row.name, host=row.host, rest=rest, port=row.port or 5432)


def _lag(row: _Row) -> int | None:
    return row.lag if isinstance(row.lag, int) else None
