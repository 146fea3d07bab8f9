"""`/summary`, `/plan` and `/events`: the fleet as a whole."""

from typing import Annotated

from msgspec import Meta

from llmgw.schema.admin.event import EventList
from llmgw.schema.admin.plan import PlanAnswer
from llmgw.schema.errors import NoLeader, StoreUnavailable
from llmgw.schema.key import AdminRole
from llmgw.schema.summary import Summary
from llmgw.schema.value import Value
from llmgw.server.http.typed_route import Call, Nothing, TypedRoute
from llmgw.server.services import events, planning
from llmgw.server.services.summary import summary

_TAG = "fleet"


class EventQuery(Value, frozen=True, kw_only=True):
    """Which events."""

    limit: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": events.MAX_LIMIT})] = 100
    before: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": events.MAX_SEQ})] | None = None
    """Only those older than this `seq`: `next` of the page before."""


async def _summary(call: Call[Nothing, Nothing]) -> Summary:
    return summary(call.context.fleet, version=call.context.version)


async def _plan(call: Call[Nothing, Nothing]) -> PlanAnswer:
    return await planning.planned(call.context.fleet)


async def _events(call: Call[Nothing, EventQuery]) -> EventList:
    return await events.recent(call.context.store, limit=call.query.limit, before=call.query.before)


ROUTES = (
    TypedRoute(
        method="GET",
        path="/summary",
        role=AdminRole.VIEWER,
        summary="The whole fleet in one answer",
        handler=_summary,
        answer=Summary,
        tag=_TAG,
    ),
    TypedRoute(
        method="GET",
        path="/plan",
        role=AdminRole.VIEWER,
        summary="What would be started and stopped now, what fits nowhere, and whom that hurts",
        handler=_plan,
        answer=PlanAnswer,
        tag=_TAG,
        errors=(NoLeader,),
    ),
    TypedRoute(
        method="GET",
        path="/events",
        role=AdminRole.VIEWER,
        summary="Read events, newest first",
        handler=_events,
        query=EventQuery,
        answer=EventList,
        tag=_TAG,
        errors=(StoreUnavailable,),
    ),
)
