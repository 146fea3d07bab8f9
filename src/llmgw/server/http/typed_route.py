"""Typed routes: one value says what a path takes, gives and needs; handlers see decoded values only."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llmgw.schema.errors import (
    Conflict,
    Fenced,
    Forbidden,
    InvalidInput,
    LlmgwError,
    NoLeader,
    NotFound,
    NotJson,
    StoreUnavailable,
    TooLarge,
    Unauthorized,
)
from llmgw.schema.key import AdminRole, AdminToken
from llmgw.schema.lease import Standing
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
    read: Callable[[bytes], object] | None = None
    """Reads the body, in a thread, where it is too large to be read like others. Raises `InvalidInput`."""
    max_body: int = MAX_BODY_BYTES
    query: type[Any] = Nothing
    status: int = 200
    tag: str
    errors: tuple[type[LlmgwError], ...] = ()
    """Beside those that follow from method and path."""

    @property
    def refusals(self) -> tuple[type[LlmgwError], ...]:
        """All errors it may answer with, for its description."""
        of_path = (NotFound,) if "{" in self.path else ()
        of_method = () if self.method == "GET" else (Conflict, Fenced, NoLeader, StoreUnavailable)
        of_body = () if self.body is Nothing else (NotJson,)
        return (InvalidInput, Unauthorized, Forbidden, TooLarge, *of_path, *of_method, *of_body, *self.errors)

    @property
    def needs_leader(self) -> bool:
        """True for what a standby cannot do: changes, and questions about what runs at this very moment."""
        return NoLeader in self.refusals

    async def answer_to(self, request: Request, context: Context) -> Response:
        """Answer one request, or have the leader answer it. Raises `LlmgwError`."""
        if self.needs_leader and context.standby is not None and _another_leads(context):
            # Not authorized here: the leader does that, and may know of tokens that this copy does not yet have.
            return await context.standby.forward(request, await read_body(request, self.max_body))
        actor = authorize(request, context.fleet, self.role)
        query = strict.convert(self.query, _query(request), texts=True)
        body = await self._body(request)
        call = Call(context=context, actor=actor, path=request.path_params, body=body, query=query)
        answer = await self.handler(call)
        return Response(msgspec.json.encode(answer), self.status, {"cache-control": "no-store"}, media_type=JSON)

    async def _body(self, request: Request) -> object:
        raw = await read_body(request, self.max_body)
        if self.read is not None:
            return await asyncio.to_thread(self.read, raw)
        if self.body is Nothing and not raw.strip():
            return Nothing()
        _refuse_other_kinds(request)
        return strict.decode(self.body, raw)


def bind(routes: Sequence[TypedRoute], context: Context) -> tuple[Route, ...]:
    """Give the framework's routes, one a path: so a refused method is told all those that the path takes."""
    by_path: dict[str, dict[str, TypedRoute]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = route
    return tuple(_bound(path, by_method, context) for path, by_method in by_path.items())


def _bound(path: str, by_method: Mapping[str, TypedRoute], context: Context) -> Route:
    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await by_method[method].answer_to(request, context)

    return Route(path, endpoint, methods=list(by_method))


async def read_body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """Read the body whole. Raises `TooLarge` as soon as it is known to be."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def _another_leads(context: Context) -> bool:
    return context.fleet.leader_status().standing is Standing.STANDING_BY


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit} bytes", allowed=(f"0..{limit} bytes",))


def _query(request: Request) -> dict[str, str]:
    query: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in query:
            raise InvalidInput(f"{name!r} is given twice in the query", hint="give it once", field=name)
        query[name] = value
    return query


def _refuse_other_kinds(request: Request) -> None:
    """A body that is said to be something else is a slip of the caller; one that is said to be nothing may pass."""
    said = request.headers.get("content-type", JSON)
    kind = said.partition(";")[0].strip().lower()
    if kind == JSON or kind.endswith("+json"):
        return
    raise NotJson(
        f"the body is said to be {said[:100]!r}", hint=f"send JSON, with content-type: {JSON}", allowed=(JSON,)
    )
