"""Typed routes: one value says what a path takes, gives and needs; handlers see decoded values only."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llmgw.schema.errors import TooLarge
from llmgw.schema.key import AdminRole, AdminToken
from llmgw.schema.value import Value
from llmgw.server.http.auth import authorize
from llmgw.server.http.context import Context
from llmgw.server.http.errors import JSON
from llmgw.server.services import strict

MAX_BODY_BYTES = 1024 * 1024
"""The largest body is a model's definition, a few kilobytes."""

B = TypeVar("B")
Q = TypeVar("Q")


class Nothing(Value, frozen=True, kw_only=True):
    """No body, no query."""


@dataclass(frozen=True, kw_only=True)
class Call(Generic[B, Q]):
    """One request, decoded and authorized."""

    context: Context
    actor: AdminToken
    path: Mapping[str, str]
    body: B
    query: Q


@dataclass(frozen=True, kw_only=True)
class TypedRoute:
    """A path of the API. `role` has no default: whoever adds a path decides who may use it."""

    method: str
    path: str
    """Below `/api/v1`, with Starlette's converters (`{name:path}`)."""
    role: AdminRole
    summary: str
    handler: Callable[[Call[Any, Any]], Awaitable[object]]
    answer: type[Any]
    body: type[Any] = Nothing
    query: type[Any] = Nothing
    status: int = 200
    tag: str

    def bind(self, context: Context) -> Route:
        """Give the framework's route."""

        async def endpoint(request: Request) -> Response:
            actor = authorize(request, context.fleet, self.role)
            query = strict.convert(self.query, dict(request.query_params), texts=True)
            body = await self._body(request)
            call = Call(context=context, actor=actor, path=request.path_params, body=body, query=query)
            answer = await self.handler(call)
            return Response(msgspec.json.encode(answer), self.status, {"cache-control": "no-store"}, media_type=JSON)

        return Route(self.path, endpoint, methods=[self.method])

    async def _body(self, request: Request) -> object:
        raw = await read_body(request)
        if self.body is Nothing and not raw.strip():
            return Nothing()
        return strict.decode(self.body, raw)


async def read_body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """Read the body whole. Raises `TooLarge` as soon as it is known to be."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"the body is larger than {limit} bytes", allowed=(f"0..{limit} bytes",))
    return bytes(body)
