"""Folding writes into rows: what the store's tables hold after a transaction, without reading them again."""

import operator
from collections.abc import Mapping, Sequence
from typing import TypeVar

from llmgw.ports import (
    DeleteModel,
    DeleteNode,
    DeleteReplica,
    FleetRows,
    PutModel,
    PutNode,
    PutReplica,
    PutStatus,
    Write,
)
from llmgw.schema.model import Model, ModelStatus
from llmgw.schema.node import Node
from llmgw.schema.replica import Replica

V = TypeVar("V")


def fold(rows: FleetRows, writes: Sequence[Write]) -> FleetRows:
    """Give the fleet tables after `writes`, in order of their names; writes to other tables are left out.

    A table that nothing changed in stays the same object: what is derived from it need not be made again.
    """
    if not writes:
        return rows
    nodes = {node.id: node for node in rows.nodes}
    models = {model.name: model for model in rows.models}
    statuses = {status.model: status for status in rows.statuses}
    replicas = {replica.id: replica for replica in rows.replicas}
    for write in writes:
        _fold_one(write, nodes, models, statuses, replicas)
    return FleetRows(
        nodes=_table(rows.nodes, nodes),
        models=_table(rows.models, models),
        statuses=_table(rows.statuses, statuses),
        replicas=_table(rows.replicas, replicas),
    )


def ordered(rows: FleetRows) -> FleetRows:
    """Give the same rows in order of their names, so that equal tables make equal rows and equal plans."""
    return FleetRows(
        nodes=tuple(sorted(rows.nodes, key=lambda node: node.id)),
        models=tuple(sorted(rows.models, key=lambda model: model.name)),
        statuses=tuple(sorted(rows.statuses, key=lambda status: status.model)),
        replicas=tuple(sorted(rows.replicas, key=lambda replica: replica.id)),
    )


def _table(before: tuple[V, ...], after: Mapping[str, V]) -> tuple[V, ...]:
    found = tuple(after[name] for name in sorted(after))
    same = len(found) == len(before) and all(map(operator.is_, found, before))
    return before if same else found


def _fold_one(
    write: Write,
    nodes: dict[str, Node],
    models: dict[str, Model],
    statuses: dict[str, ModelStatus],
    replicas: dict[str, Replica],
) -> None:
    match write:
        case PutNode(node=node):
            nodes[node.id] = node
        case DeleteNode(id=node_id):
            nodes.pop(node_id, None)
        case PutModel(model=model):
            models[model.name] = model
        case DeleteModel(name=name):
            models.pop(name, None)
            statuses.pop(name, None)
        case PutStatus(status=status):
            statuses[status.model] = status
        case PutReplica(replica=replica):
            replicas[replica.id] = replica
        case DeleteReplica(id=replica_id):
            replicas.pop(replica_id, None)
        case _:
            return
