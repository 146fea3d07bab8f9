"""Desired state of a node: the shards it should run, from stored replicas."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from llmgw.core.shard_env import shard_env
from llmgw.schema.desired import DesiredShard, WantedEngine
from llmgw.schema.model import Model
from llmgw.schema.node import NodeFacts
from llmgw.schema.replica import Replica, ReplicaState, Shard

_RUNNING = frozenset({ReplicaState.STARTING, ReplicaState.READY})
_ENCODER = msgspec.json.Encoder(order="deterministic")


def desired_shards(
    node_id: str,
    replicas: Iterable[Replica],
    models: Mapping[str, Model],
    nodes: Mapping[str, NodeFacts] = MappingProxyType({}),
) -> tuple[DesiredShard, ...]:
    """Give the shards one node should run: those of replicas that are starting or ready, sorted by id.

    `models` by name, profiles resolved; `nodes` by id, for the addresses of replicas on several of them. A replica
    whose model is gone is not wanted.
    """
    wanted = [
        _desired(replica, shard, model, shard_env(replica, shard, nodes))
        for replica in replicas
        if replica.state in _RUNNING and (model := models.get(replica.model)) is not None
        for shard in replica.shards
        if shard.allocation.node == node_id
    ]
    return tuple(sorted(wanted, key=lambda shard: shard.id))


def watch_paths(models: Iterable[Model]) -> tuple[str, ...]:
    """Give the sources nodes should look at: all that are absolute paths, sorted, each once."""
    return tuple(sorted({model.source for model in models if model.source.startswith("/")}))


def digest(shards: Sequence[DesiredShard], engines: Sequence[WantedEngine], watch_paths: Sequence[str]) -> str:
    """Give a digest of the set's content alone, so that an equal set is no new generation."""
    content = (
        sorted(shards, key=lambda shard: shard.id),
        sorted(engines, key=lambda engine: (engine.kind, engine.version or "", engine.variant or "")),
        sorted(watch_paths),
    )
    return hashlib.sha256(_ENCODER.encode(content)).hexdigest()


def _desired(replica: Replica, shard: Shard, model: Model, env: dict[str, str]) -> DesiredShard:
    return DesiredShard(
        id=shard.id,
        replica=replica.id,
        model=model.name,
        rank=shard.rank,
        attempt=replica.attempt,
        key=shard.key,
        role=model.role,
        source=model.source,
        profile=model.profile,
        allocation=shard.allocation,
        # What an operator wrote for the model goes before what follows from the fleet.
        env={name: value for name, value in env.items() if name not in model.profile.env},
    )
