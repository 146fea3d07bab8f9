"""Logs of engines, read from their nodes over the agents' streams."""

import asyncio

from llmgw.schema.admin.replica import ReplicaLogs, ShardLog
from llmgw.schema.errors import InvalidInput, NotFound
from llmgw.schema.replica import Replica, Shard
from llmgw.server.fleet import Fleet
from llmgw.server.services import replicas

MAX_TAIL_BYTES = 1024 * 1024
MAX_ATTEMPT = 2**31


async def replica_logs(
    fleet: Fleet, replica_id: str, *, rank: int | None, attempt: int | None, tail_bytes: int
) -> ReplicaLogs:
    """Read the end of the log of one shard, or of all. A node that does not answer is told in its place."""
    if not 1 <= tail_bytes <= MAX_TAIL_BYTES:
        raise InvalidInput(
            f"tail_bytes must be between 1 and {MAX_TAIL_BYTES}", field="tail_bytes", allowed=(f"1..{MAX_TAIL_BYTES}",)
        )
    if attempt is not None and not 1 <= attempt <= MAX_ATTEMPT:
        raise InvalidInput(
            f"attempt must be between 1 and {MAX_ATTEMPT}", field="attempt", allowed=(f"1..{MAX_ATTEMPT}",)
        )
    shards = _chosen(replicas.find(fleet, replica_id), rank)
    logs = await asyncio.gather(*(_read(fleet, shard, attempt, tail_bytes) for shard in shards))
    return ReplicaLogs(logs=tuple(logs))


def _chosen(replica: Replica, rank: int | None) -> tuple[Shard, ...]:
    if rank is None:
        return replica.shards
    chosen = tuple(shard for shard in replica.shards if shard.rank == rank)
    if not chosen:
        ranks = tuple(str(shard.rank) for shard in replica.shards)
        raise NotFound(f"replica {replica.id} has no shard of rank {rank}", field="shard", allowed=ranks)
    return chosen


async def _read(fleet: Fleet, shard: Shard, attempt: int | None, tail_bytes: int) -> ShardLog:
    node = shard.allocation.node
    try:
        reply = await fleet.read_log(shard.id, node=node, attempt=attempt, tail_bytes=tail_bytes)
    except NotFound as error:
        return ShardLog(shard=shard.id, node=node, attempt=attempt, error=error.message)
    return ShardLog(shard=shard.id, node=node, attempt=reply.attempt, text=reply.text, error=reply.error)
