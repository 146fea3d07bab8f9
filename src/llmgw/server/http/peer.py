"""What other control planes of the cluster tell this one: gateways' demand. No part of the API for people."""

import hmac
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llmgw.schema.demand import DemandReport
from llmgw.schema.errors import InvalidInput, Unauthorized
from llmgw.server.fleet import Fleet
from llmgw.server.http.typed_route import read_body
from llmgw.server.peers import DEMAND_PATH
from llmgw.server.standby import peer_secret

MAX_BYTES = 16 * 1024 * 1024

_decoder = msgspec.json.Decoder(tuple[DemandReport, ...])


def demand_route(fleet: Fleet, take: Callable[[DemandReport], None]) -> Route:
    """Give the path that takes demand from control planes that can read this cluster's store."""

    async def endpoint(request: Request) -> Response:
        presented = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not fleet.hash_key or not hmac.compare_digest(presented.encode(), peer_secret(fleet.hash_key).encode()):
            raise Unauthorized("only control planes of this cluster may tell demand")
        try:
            reports = _decoder.decode(await read_body(request, MAX_BYTES))
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"this is no list of demand reports: {error}") from error
        for report in reports:
            take(report)
        return Response(status_code=200)

    return Route(DEMAND_PATH, endpoint, methods=["POST"])
