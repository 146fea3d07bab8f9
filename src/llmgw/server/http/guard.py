"""`/guard`: policies, judges and the audit of guardrails."""

from typing import Annotated, Any

from msgspec import Meta

from llmgw.schema.admin.guard import AuditList, EnableJudge, JudgeEnabled, JudgeList, PolicyDiff, StoredPolicies
from llmgw.schema.errors import NoLeader
from llmgw.schema.guard.coverage import Outcome
from llmgw.schema.guard.policy import PolicyFile
from llmgw.schema.key import AdminRole
from llmgw.schema.value import Value
from llmgw.server.http.typed_route import Call, Nothing, TypedRoute
from llmgw.server.services import judge_enable, judges, policies

_TAG = "guard"


class AuditQuery(Value, frozen=True, kw_only=True):
    """Which records."""

    outcome: Outcome | None = None
    limit: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": judges.MAX_AUDIT})] = 100


async def _export(call: Call[Nothing, Nothing]) -> dict[str, Any]:
    return policies.export(call.context.fleet)


async def _stored(call: Call[Nothing, Nothing]) -> StoredPolicies:
    return policies.stored(call.context.fleet)


async def _apply(call: Call[PolicyFile, Nothing]) -> PolicyDiff:
    context = call.context
    return await policies.apply(context.fleet, context.clock, call.body, actor=call.actor.id)


async def _diff(call: Call[PolicyFile, Nothing]) -> PolicyDiff:
    return policies.diff(call.context.fleet, call.context.clock, call.body)


async def _judges(call: Call[Nothing, Nothing]) -> JudgeList:
    return JudgeList(judges=judges.judge_statuses(call.context.fleet))


async def _enable(call: Call[EnableJudge, Nothing]) -> JudgeEnabled:
    context = call.context
    name = call.path["name"]
    return await judge_enable.enable(context.fleet, context.clock, name, call.body, actor=call.actor.id)


async def _audit(call: Call[Nothing, AuditQuery]) -> AuditList:
    return judges.audit(call.context.fleet, outcome=call.query.outcome, limit=call.query.limit)


ROUTES = (
    TypedRoute(
        method="GET",
        path="/guard/policies",
        role=AdminRole.VIEWER,
        summary="The policies as a file that can be applied again; fields that have their default value are left out",
        handler=_export,
        answer=PolicyFile,
        tag=_TAG,
    ),
    TypedRoute(
        method="PUT",
        path="/guard/policies",
        # Whoever may take rules away may let everything through: more than serving models.
        role=AdminRole.ADMIN,
        summary="Make the policies those of a file; policies it does not name are deleted",
        handler=_apply,
        body=PolicyFile,
        answer=PolicyDiff,
        tag=_TAG,
    ),
    TypedRoute(
        method="POST",
        path="/guard/policies/diff",
        role=AdminRole.OPERATOR,
        summary="What applying a file would change; nothing does",
        handler=_diff,
        body=PolicyFile,
        answer=PolicyDiff,
        tag=_TAG,
    ),
    TypedRoute(
        method="GET",
        path="/guard/policies/stored",
        role=AdminRole.VIEWER,
        summary="The policies with their revisions",
        handler=_stored,
        answer=StoredPolicies,
        tag=_TAG,
    ),
    TypedRoute(
        method="GET",
        path="/guard/judges",
        role=AdminRole.VIEWER,
        summary="Each judge that policies ask: how it does, and what is wrong in words",
        handler=_judges,
        answer=JudgeList,
        tag=_TAG,
        errors=(NoLeader,),
    ),
    TypedRoute(
        method="POST",
        path="/guard/judges/{name:path}/enable",
        role=AdminRole.OPERATOR,
        summary="Serve a judge that is missing, or cure one that is there",
        handler=_enable,
        body=EnableJudge,
        answer=JudgeEnabled,
        tag=_TAG,
    ),
    TypedRoute(
        method="GET",
        path="/guard/audit",
        role=AdminRole.VIEWER,
        summary="Coverage records of requests that were not allowed as they were, or not scanned whole, newest first",
        handler=_audit,
        query=AuditQuery,
        answer=AuditList,
        tag=_TAG,
        errors=(NoLeader,),
    ),
)
