"""Paths for machines: liveness, who leads, metrics."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llmgw.core.lease import holds_on
from llmgw.schema.errors import ErrorBody
from llmgw.schema.key import AdminRole
from llmgw.schema.lease import LeaseStatus, Standing
from llmgw.server.http.auth import authorize
from llmgw.server.http.context import Context
from llmgw.server.http.errors import JSON, error_response
from llmgw.server.metrics_export import CONTENT_TYPE, MetricsExport
from llmgw.server.peers import HOST_PATH


def probe_routes(context: Context, metrics: MetricsExport) -> tuple[Route, ...]:
    """Give `/healthz` and `/leader`, open to all, and `/metrics` for viewers."""

    async def healthz(_: Request) -> Response:
        who = {} if context.standby is None else {"name": context.config.name, "holder": context.standby.holder}
        return _answer({"status": "ok", **who})

    async def leader(_: Request) -> Response:
        """Keepalived and load balancers ask this: 200 on the valid leader only, by a clock comparison now."""
        status = context.fleet.leader_status()
        if context.fleet.is_leader():
            return _answer({"leader": status.leader_name, "epoch": status.epoch})
        message = f"this control plane does not lead; {_who_leads(status)}"
        return error_response(503, ErrorBody(code="not_leading", message=message))

    async def address(_: Request) -> Response:
        """Keepalived asks this: 200 where the floating address belongs.

        On the leader, and for a minute where it only lapsed: while the store is away nobody else can take the lead, and
        clients of the gateways are served on.
        """
        if holds_on(context.fleet.leader_status()):
            return _answer({"address": "here"})
        message = f"the floating address does not belong here; {_who_leads(context.fleet.leader_status())}"
        return error_response(503, ErrorBody(code="not_leading", message=message))

    async def exported(request: Request) -> Response:
        authorize(request, context.fleet, AdminRole.VIEWER)
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    async def host(_: Request) -> Response:
        """Say of this host whether it has the floating address; other control planes ask."""
        word = context.fleet.surroundings.own_host()
        if word is None:
            message = "no floating address is configured here"
            return error_response(404, ErrorBody(code="not_found", message=message, hint="set floating_address"))
        return _answer(msgspec.to_builtins(word))

    return (
        Route(HOST_PATH, host, methods=["GET"]),
        Route("/healthz", healthz, methods=["GET"]),
        Route("/leader", leader, methods=["GET"]),
        Route("/address", address, methods=["GET"]),
        Route("/metrics", exported, methods=["GET"]),
    )


def _who_leads(status: LeaseStatus) -> str:
    if status.standing is Standing.LAPSED:
        return f"it did until the store went away: {status.store_problem or 'it did not answer in time'}"
    return f"{status.leader_name} does" if status.leader_name else "nobody is known to"


def _answer(body: dict[str, object]) -> Response:
    return Response(msgspec.json.encode(body), headers={"cache-control": "no-store"}, media_type=JSON)
