"""The routing view made from the fleet. Pure: equal fleets make equal routes."""

from collections.abc import Mapping
from datetime import datetime

from llmgw.core.parking import for_revision
from llmgw.ports import FleetRows
from llmgw.schema.key import ApiKey
from llmgw.schema.model import Model, ModelStatus
from llmgw.schema.node import Node, Reachability
from llmgw.schema.replica import Replica, ReplicaState
from llmgw.schema.report import ShardReport
from llmgw.schema.view import KeyEntry, Route, RouteReplica, RoutesDelta

START_BASE_S = 300.0
START_PER_GIB_S = 20.0
START_MAX_S = 6 * 3600.0
"""A start may take so long: slow on purpose, since giving up too late only delays a failure and giving up too early
makes one (facts on on-demand models, rule 6)."""


def routes(rows: FleetRows, reports: Mapping[str, ShardReport]) -> tuple[Route, ...]:
    """Give a route for each model. Only stored states decide who is routed to: `reports` serves the texts.

    So a control plane that has just started, and heard no agent yet, routes as the last one did.
    """
    nodes = {node.id: node for node in rows.nodes}
    sizes = _sizes(rows.nodes, {model.source for model in rows.models if model.min == 0})
    statuses = {status.model: status for status in rows.statuses}
    replicas: dict[str, list[Replica]] = {}
    for replica in rows.replicas:
        replicas.setdefault(replica.model, []).append(replica)
    return tuple(
        _route(model, statuses.get(model.name), tuple(replicas.get(model.name, ())), nodes, reports, sizes=sizes)
        for model in rows.models
    )


def key_entries(keys: tuple[ApiKey, ...]) -> tuple[KeyEntry, ...]:
    """Give the keys that let somebody in."""
    return tuple(KeyEntry(id=key.id, hash=key.hash, project=key.project) for key in keys if key.revoked_at is None)


def routes_delta(before: tuple[Route, ...], after: tuple[Route, ...], *, base: int, version: int) -> RoutesDelta:
    """Give the difference of two sets of routes."""
    old = {route.model: route for route in before}
    new = {route.model for route in after}
    return RoutesDelta(
        base=base,
        version=version,
        changed=tuple(route for route in after if old.get(route.model) != route),
        removed=tuple(sorted(old.keys() - new)),
    )


def _route(
    model: Model,
    status: ModelStatus | None,
    replicas: tuple[Replica, ...],
    nodes: Mapping[str, Node],
    reports: Mapping[str, ShardReport],
    *,
    sizes: Mapping[str, int],
) -> Route:
    asked = [one for one in replicas if one.state is ReplicaState.READY and one.shards[0].endpoint is not None]
    # On a lost node nothing answers, or it would not be lost: it is asked only where there is no other.
    there = [one for one in asked if not _is_lost(one, nodes)] or asked
    ready = tuple(_replica(replica, model, nodes) for replica in there)
    return Route(
        model=model.name,
        role=model.role,
        created=int(model.created_at.timestamp()),
        replicas=ready,
        unavailable=None if ready else unavailable(model, status, replicas, reports),
        hold_s=None if ready else _hold_s(model, status, sizes),
        routing=model.routing,
    )


def _is_lost(replica: Replica, nodes: Mapping[str, Node]) -> bool:
    found = (nodes.get(shard.allocation.node) for shard in replica.shards)
    return any(node is not None and node.reachability is Reachability.LOST for node in found)


def _replica(replica: Replica, model: Model, nodes: Mapping[str, Node]) -> RouteReplica:
    """Give a replica by its first shard: it is the one that answers requests, whatever the others do."""
    shard = replica.shards[0]
    node = nodes.get(shard.allocation.node)
    return RouteReplica(
        id=replica.id,
        shard=shard.id,
        node=shard.allocation.node,
        place=node.facts.place if node else None,
        endpoint=shard.endpoint,
        door=node.facts.door if node else None,
        key=shard.key,
        kind=model.profile.engine.value,
        slots=shard.slots,
        context=shard.context,
        silent=node is not None and node.reachability is Reachability.UNREACHABLE,
    )


def _hold_s(model: Model, status: ModelStatus | None, sizes: Mapping[str, int]) -> float | None:
    """Give how long requests may wait for a start: not at all where none is wanted on demand, or none can succeed."""
    if model.min > 0:
        return None
    current = None if status is None else for_revision(status, model.revision)
    if current is not None and (current.parked is not None or current.unplaceable is not None):
        return None
    gib = sizes.get(model.source, 0) / 2**30
    return min(START_BASE_S + START_PER_GIB_S * gib, START_MAX_S)


def _sizes(nodes: tuple[Node, ...], sources: set[str]) -> dict[str, int]:
    """Give the size of the weights at each source some node sees; stops looking once all are found."""
    found: dict[str, int] = {}
    for node in nodes:
        if len(found) == len(sources):
            break
        watched = (one.weights for one in node.facts.watched if one.weights is not None)
        for weights in (*(node.facts.weights or ()), *watched):
            if weights.path in sources:
                found[weights.path] = weights.size_bytes
    return found


def unavailable(
    model: Model, status: ModelStatus | None, replicas: tuple[Replica, ...], reports: Mapping[str, ShardReport]
) -> str:
    """Say in words why no replica of `model` can be asked now."""
    if status is not None and status.parked is not None:
        starts = _count(status.parked.failures, "failed start")
        return f"it is parked after {starts}: {status.parked.reason}"
    starting = next((replica for replica in replicas if replica.state is ReplicaState.STARTING), None)
    if starting is not None:
        return _starting(starting, status, reports)
    failed = next((replica for replica in replicas if replica.state is ReplicaState.FAILED), None)
    if failed is not None:
        return _failed(failed, status)
    if status is not None and status.unplaceable is not None:
        return f"it fits on no node now: {status.unplaceable}"
    if any(replica.state is ReplicaState.DRAINING for replica in replicas):
        return "its last replica is being stopped"
    if model.min == 0:
        return "it starts when it is asked for (min is 0)"
    return "no replica of it has been placed yet"


def _starting(replica: Replica, status: ModelStatus | None, reports: Mapping[str, ShardReport]) -> str:
    said = (reports.get(shard.id) for shard in replica.shards)
    progress = next(
        (report.progress for report in said if report and report.attempt == replica.attempt and report.progress), None
    )
    text = f"it is starting: {progress}" if progress else "it is starting"
    if status is not None and status.failures and status.last_failure:
        text += f" (try {status.failures + 1}; the last one failed: {status.last_failure})"
    return text


def _failed(replica: Replica, status: ModelStatus | None) -> str:
    reason = (status.last_failure if status else None) or replica.reason or "no reason is known"
    text = f"its last start failed: {reason}"
    if status is not None and status.retry_at is not None:
        text += f"; the next try is at {_time(status.retry_at)}"
    return text


def _time(moment: datetime) -> str:
    return moment.strftime("%H:%M:%S UTC")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
