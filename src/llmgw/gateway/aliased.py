"""A request to an alias: one of several models is asked, and another one where that cannot answer."""

import zlib
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from llmgw.core.aliases import models_of
from llmgw.gateway.ask import Ask
from llmgw.gateway.call import Call
from llmgw.gateway.dispatch import SESSION_HEADER, Dispatcher
from llmgw.gateway.errors import ApiError, model_unavailable
from llmgw.gateway.routes_view import LiveRoute, LiveView
from llmgw.relay.request import Request
from llmgw.schema.alias import Alias
from llmgw.schema.value import Value
from llmgw.telemetry import log as logs

_ELSEWHERE = frozenset({429, 502, 503})
"""The model cannot answer now; what took too long (504) would take as long again."""

log = logs.get(__name__)


class Aliased:
    """The models that may answer one request, in order. Raises `ApiError` 503 when none is there."""

    def __init__(self, alias: Alias, request: Request, view: LiveView, dispatcher: Dispatcher) -> None:
        names = models_of(alias, session_of(request), known=view.names())
        self._routes = [route for name in names if (route := view.route(name)) is not None]
        self._alias = alias
        self._dispatcher = dispatcher
        if not self._routes:
            raise model_unavailable(alias.name, "none of the models behind this alias is there")

    @property
    def first(self) -> LiveRoute:
        """The model that is asked first."""
        return self._routes[0]

    @property
    def others(self) -> tuple[str, ...]:
        """The models that may answer in its place."""
        return tuple(route.model for route in self._routes[1:])

    async def run(self, call: Call, ask: Ask, _: LiveRoute) -> None:
        """Answer `call` by the first that can. Raises `ApiError` as `Dispatcher.run` does, of the last one asked."""
        for route in self._routes[:-1]:
            try:
                await self._put(call, ask, route)
            except ApiError as error:
                if call.exchange.started or error.status not in _ELSEWHERE:
                    raise
                log.info("alias.fell_back", alias=self._alias.name, model=route.model, reason=str(error))
            else:
                return
        await self._put(call, ask, self._routes[-1])

    async def _put(self, call: Call, ask: Ask, route: LiveRoute) -> None:
        call.model = route.model
        await self._dispatcher.run(call, named(ask, route.model), route)


def named(ask: Ask, model: str) -> Ask:
    """Give the same request to another model: engines want their own name in it."""
    return replace(ask, model=model, body=lambda kind, context: _renamed(ask.body(kind, context), model))


def session_of(request: Request) -> int:
    """Give a number that stays the same as a conversation goes on: of the session's name, else of its opening."""
    name = request.header(SESSION_HEADER)
    if name is not None:
        return zlib.crc32(name)
    opening = _OPENING.decode(request.body)
    if opening.messages is not UNSET:
        return zlib.crc32(_until_user(bytes(opening.messages)))
    for part in (opening.prompt, opening.input, opening.query):
        if part is not UNSET:
            return zlib.crc32(part)
    return 0


class _Opening(Value, frozen=True, kw_only=True):
    messages: Raw | UnsetType = UNSET
    prompt: Raw | UnsetType = UNSET
    input: Raw | UnsetType = UNSET
    query: Raw | UnsetType = UNSET


class _Role(Value, frozen=True, kw_only=True):
    role: Any = None


_OPENING = msgspec.json.Decoder(_Opening)
_LIST = msgspec.json.Decoder(list[Raw])
_ROLE = msgspec.json.Decoder(_Role)
_MEMBERS: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])


def _until_user(messages: bytes) -> bytes:
    """Give the messages up to the first of a user; all of it where that is no list: the engine says what is wrong."""
    found: list[bytes] = []
    try:
        for message in _LIST.decode(messages):
            found.append(bytes(message))
            if _ROLE.decode(message).role == "user":
                break
    except msgspec.DecodeError:
        return messages
    return b"".join(found)


def _renamed(body: bytes, model: str) -> bytes:
    members: dict[str, Any] = dict(_MEMBERS.decode(body))
    return msgspec.json.encode(members | {"model": model})
