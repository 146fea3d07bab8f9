"""`/replicas` and their logs."""

from typing import Annotated

from msgspec import Meta

from llmgw.schema.admin.replica import ReplicaList, ReplicaLogs, ReplicaRow
from llmgw.schema.errors import NoLeader
from llmgw.schema.key import AdminRole
from llmgw.schema.value import Value
from llmgw.server.http.typed_route import Call, Nothing, TypedRoute
from llmgw.server.services import logs, replicas

_TAG = "replicas"


class LogQuery(Value, frozen=True, kw_only=True):
    """Which part of which log."""

    shard: Annotated[int, Meta(extra_json_schema={"minimum": 0})] | None = None
    """Rank of one shard; left out, all are read."""
    attempt: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": logs.MAX_ATTEMPT})] | None = None
    """Which start; left out, the newest."""
    tail_bytes: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": logs.MAX_TAIL_BYTES})] = 64 * 1024


async def _list(call: Call[Nothing, Nothing]) -> ReplicaList:
    return ReplicaList(replicas=replicas.all_replicas(call.context.fleet))


async def _get(call: Call[Nothing, Nothing]) -> ReplicaRow:
    return replicas.one_replica(call.context.fleet, call.path["id"])


async def _logs(call: Call[Nothing, LogQuery]) -> ReplicaLogs:
    query = call.query
    return await logs.replica_logs(
        call.context.fleet, call.path["id"], rank=query.shard, attempt=query.attempt, tail_bytes=query.tail_bytes
    )


ROUTES = (
    TypedRoute(
        method="GET",
        path="/replicas",
        role=AdminRole.VIEWER,
        summary="List replicas with their shards, processes and restarts",
        handler=_list,
        answer=ReplicaList,
        tag=_TAG,
    ),
    TypedRoute(
        method="GET",
        path="/replicas/{id}",
        role=AdminRole.VIEWER,
        summary="Show one replica",
        handler=_get,
        answer=ReplicaRow,
        tag=_TAG,
    ),
    TypedRoute(
        method="GET",
        path="/replicas/{id}/logs",
        role=AdminRole.VIEWER,
        summary="Read the end of the engines' logs from their nodes",
        handler=_logs,
        query=LogQuery,
        answer=ReplicaLogs,
        tag=_TAG,
        errors=(NoLeader,),
    ),
)
