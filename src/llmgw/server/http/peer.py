"""What other control planes of the cluster tell this one, and ask it. No part of the API for people."""

import hmac
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llmgw.schema.demand import DemandReport
from llmgw.schema.errors import Conflict, InvalidInput, Unauthorized
from llmgw.schema.value import Value
from llmgw.server.fleet import Fleet
from llmgw.server.hand_over import HandingOver
from llmgw.server.http.errors import JSON
from llmgw.server.http.typed_route import read_body
from llmgw.server.peers import DEMAND_PATH, STANDBY_PATH
from llmgw.server.standby import peer_secret

MAX_BYTES = 16 * 1024 * 1024

_decoder = msgspec.json.Decoder(tuple[DemandReport, ...])


class _Wait(Value, frozen=True, kw_only=True):
    seconds: float


def demand_route(fleet: Fleet, take: Callable[[DemandReport], None]) -> Route:
    """Give the path that takes demand from control planes that can read this cluster's store."""

    async def endpoint(request: Request) -> Response:
        _only_peers(request, fleet)
        try:
            reports = _decoder.decode(await read_body(request, MAX_BYTES))
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"this is no list of demand reports: {error}") from error
        for report in reports:
            take(report)
        return Response(status_code=200)

    return Route(DEMAND_PATH, endpoint, methods=["POST"])


def standby_route(fleet: Fleet, handing_over: HandingOver) -> Route:
    """Give the path by which a leader that lost its agents asks who could do better."""

    async def endpoint(request: Request) -> Response:
        _only_peers(request, fleet)
        if request.method == "GET":
            return Response(msgspec.json.encode(handing_over.word()), media_type=JSON)
        try:
            wish = msgspec.json.decode(await read_body(request, MAX_BYTES), type=_Wait)
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"this is no wish to wait: {error}") from error
        if not handing_over.wait(wish.seconds):
            raise Conflict("this control plane does not stand by", hint="it is not to wait for itself")
        return Response(status_code=200)

    return Route(STANDBY_PATH, endpoint, methods=["GET", "POST"])


def _only_peers(request: Request, fleet: Fleet) -> None:
    presented = request.headers.get("authorization", "").removeprefix("Bearer ")
    if not fleet.hash_key or not hmac.compare_digest(presented.encode(), peer_secret(fleet.hash_key).encode()):
        raise Unauthorized("only control planes of this cluster may ask here")
