"""Patience: how long a model waits for a silent node before its replicas there may be replaced.

A node is declared lost after the shortest wait of the models on it, at the latest after the server's `lost_after_s`.
Models that wait longer are spared: their replicas there stay until their own time has come.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Literal

from llmgw.core.amounts import counted
from llmgw.core.snapshot import Snapshot
from llmgw.schema.model import NEVER, Model
from llmgw.schema.node import Node, Reachability
from llmgw.schema.replica import Replica, ReplicaState

_NOBODY: frozenset[str] = frozenset()


def wait_s(model: Model, default_s: float) -> float:
    """Give the seconds of silence that a model bears; infinite for one whose replicas are never replaced."""
    if model.lost_after is None:
        return default_s
    return math.inf if model.lost_after == "never" else float(model.lost_after)


def waits(
    nodes: Iterable[Node], models: Iterable[Model], replicas: Iterable[Replica], *, default_s: float
) -> dict[str, dict[str, float]]:
    """Give for each node that is silent the models that have replicas there, with the seconds they wait."""
    found: dict[str, dict[str, float]] = {
        node.id: {} for node in nodes if node.reachability is not Reachability.CONNECTED
    }
    if not found:
        return found
    bears = {model.name: wait_s(model, default_s) for model in models}
    for replica in replicas:
        for shard in replica.shards:
            if shard.allocation.node in found and replica.model in bears:
                found[shard.allocation.node][replica.model] = bears[replica.model]
    return found


def spared(before: Node, waiting: Mapping[str, float], silence_s: float) -> tuple[str, ...]:
    """Give the models that still wait for a node that is lost by now. Whoever was given up before stays given up."""
    old = before.spared if before.reachability is Reachability.LOST else tuple(waiting)
    return tuple(sorted(name for name in old if waiting.get(name, 0.0) > silence_s))


def sparing(nodes: Iterable[Node]) -> dict[str, frozenset[str]]:
    """Give by node the models whose replicas there are not replaced although it is lost."""
    return {node.id: frozenset(node.spared) for node in nodes if node.spared}


def waiting(snapshot: Snapshot) -> tuple[Replica, ...]:
    """Give the ready replicas whose nodes are all lost, and that are not replaced yet."""
    patient = sparing(seen.node for seen in snapshot.nodes)
    if not patient:
        return ()
    return tuple(
        replica
        for replica in snapshot.replicas
        if replica.state is ReplicaState.READY
        and all(replica.model in patient.get(shard.allocation.node, _NOBODY) for shard in replica.shards)
    )


def patience_text(lost_after: float | Literal["never"] | None) -> str:
    """Say when replicas of a model on silent nodes are replaced."""
    if lost_after is None:
        return "replaced after the server's lost_after_s"
    if lost_after == NEVER:
        return "never replaced (lost_after is never)"
    seconds = float(lost_after)
    told = counted(int(seconds), "second") if seconds.is_integer() else f"{seconds:g} seconds"
    return f"replaced after {told} of silence (lost_after)"


def waiting_text(model: Model, replica: Replica) -> str:
    """Say for what a replica waits that is not replaced yet."""
    nodes = sorted({shard.allocation.node for shard in replica.shards})
    lost = f"node {nodes[0]} is" if len(nodes) == 1 else f"nodes {', '.join(nodes)} are"
    return f"{lost} lost; replica {replica.id} is {patience_text(model.lost_after)}"
