"""Factories of fleet values for tests, demos and simulations: sound defaults, every field can be said.

Nothing here is random and no two calls share state: equal arguments give equal values.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from llmgw.core.node_lifecycle import shown_state
from llmgw.core.snapshot import ModelSnapshot, NodeSnapshot, Snapshot
from llmgw.schema.device import Device
from llmgw.schema.engine import EngineInstall, EngineKind, EngineState
from llmgw.schema.fabric import Fabric
from llmgw.schema.model import Model, ModelStatus, Profile, Role
from llmgw.schema.node import Host, Intent, Node, NodeFacts, Reachability
from llmgw.schema.plan import Allocation, Claim, Placement, Plan
from llmgw.schema.replica import Replica, ReplicaState, Shard, ShardPhase
from llmgw.schema.report import Death, ShardReport
from llmgw.schema.weights import WatchedPath, Weights, WeightsFormat

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
"""The moment all factories speak of; `FakeClock` starts there too."""
GIB = 1024**3
PATH = "/models/demo.gguf"
"""Weights that every node has unless told otherwise, and the source of every model."""


def make_weights(
    path: str = PATH, *, size_bytes: int = 100_000_000, digest: str | None = None, problem: str | None = None
) -> Weights:
    """Make weights as a node sees them."""
    return Weights(path=path, format=WeightsFormat.GGUF, size_bytes=size_bytes, digest=digest, problem=problem)


def make_devices(count: int, device_class: str = "h100-80gb", *, numa_nodes: int = 1) -> tuple[Device, ...]:
    """Make healthy devices of one class, spread evenly over NUMA nodes; ids are unique on one node only."""
    per_numa = max(1, count // numa_nodes)
    return tuple(
        Device(
            id=f"GPU-{device_class}-{index}",
            index=index,
            device_class=device_class,
            memory_bytes=80 * GIB,
            numa_node=min(index // per_numa, numa_nodes - 1),
        )
        for index in range(count)
    )


def make_node(
    node_id: str = "n1",
    *,
    cores: float | None = 8.0,
    memory_bytes: int | None = 32 * GIB,
    devices: tuple[Device, ...] = (),
    fabrics: Iterable[str] = (),
    weights: Iterable[str] | None = (PATH,),
    watched: tuple[WatchedPath, ...] = (),
    labels: Mapping[str, str] | None = None,
    engines: tuple[EngineInstall, ...] | None = None,
    intent: Intent = Intent.NONE,
    reachability: Reachability = Reachability.CONNECTED,
    generation: int = 0,
) -> Node:
    """Make a CPU node with llama.cpp; `engines=None` gives that one, `weights` are paths (`None`: not looked)."""
    ready = EngineInstall(kind=EngineKind.LLAMACPP, version="b1", variant="cpu", state=EngineState.READY)
    facts = NodeFacts(
        hostname=node_id,
        address="127.0.0.1",
        place=f"boot-{node_id}:1",
        agent_version="0.1.0",
        host=Host(os="Debian 12", kernel="6.1", machine="x86_64", cores_usable=cores),
        labels=dict(labels or {}),
        memory_bytes=memory_bytes,
        devices=devices,
        fabrics=tuple(Fabric(name=name) for name in fabrics),
        weights=None if weights is None else tuple(make_weights(path) for path in weights),
        watched=watched,
        engines=(ready,) if engines is None else engines,
        engines_probed=True,
    )
    return Node(
        id=node_id,
        facts=facts,
        intent=intent,
        reachability=reachability,
        registered_at=NOW,
        generation=generation,
    )


def make_model(
    name: str = "demo",
    *,
    source: str = PATH,
    role: Role = Role.CHAT,
    min: int = 1,  # noqa: A002  # the field is called so
    max: int | None = None,  # noqa: A002  # the field is called so
    revision: int = 1,
    profile: Profile | None = None,
    created_at: datetime = NOW,
) -> Model:
    """Make a llama.cpp model; `max` follows `min`."""
    return Model(
        name=name,
        source=source,
        role=role,
        min=min,
        max=min if max is None else max,
        revision=revision,
        profile=profile or Profile(),
        created_at=created_at,
    )


def make_allocation(
    node: str = "n1", *, cores: float | None = None, memory_bytes: int | None = None, devices: Iterable[str] = ()
) -> Allocation:
    """Make what a shard holds."""
    return Allocation(node=node, cores=cores, memory_bytes=memory_bytes, devices=tuple(devices))


def make_replica(
    replica_id: str = "raaaaaaaaaa",
    *,
    model: str = "demo",
    revision: int = 1,
    state: ReplicaState = ReplicaState.READY,
    allocations: Iterable[Allocation] | None = None,
    attempt: int = 1,
    created_at: datetime = NOW,
    reason: str | None = None,
) -> Replica:
    """Make a replica with one shard per allocation; without allocations one on node `n1` that claims nothing."""
    held = (make_allocation(),) if allocations is None else tuple(allocations)
    return Replica(
        id=replica_id,
        model=model,
        revision=revision,
        state=state,
        shards=tuple(
            Shard(id=f"{replica_id}.{rank}", rank=rank, allocation=allocation, key=f"le_test{rank:04d}-{replica_id}")
            for rank, allocation in enumerate(held)
        ),
        attempt=attempt,
        created_at=created_at,
        state_since=created_at,
        ready_at=created_at if state is ReplicaState.READY else None,
        reason=reason,
    )


def make_report(
    shard: Shard,
    *,
    model: str = "demo",
    attempt: int = 1,
    phase: ShardPhase = ShardPhase.READY,
    pid: int | None = 4242,
    engine_version: str | None = "b1",
    started_at: datetime | None = None,
    slots: int | None = None,
    context: int | None = None,
    adopted: bool = False,
    death: Death | None = None,
) -> ShardReport:
    """Make an agent's report of a shard."""
    return ShardReport(
        id=shard.id,
        attempt=attempt,
        phase=phase,
        model=model,
        engine=EngineKind.LLAMACPP,
        endpoint="http://127.0.0.1:40001" if phase is ShardPhase.READY else None,
        pid=pid,
        engine_version=engine_version,
        started_at=started_at,
        slots=slots,
        context=context,
        adopted=adopted,
        death=death,
    )


def make_death(
    cause: str = "the engine crashed",
    *,
    status: int | None = 1,
    asked: bool = False,
    heals: bool = True,
    counts: bool = True,
) -> Death:
    """Make the end of an engine that nobody asked for."""
    return Death(status=status, asked=asked, cause=cause, heals=heals, counts=counts)


def make_seen(node: Node, *, reports: tuple[ShardReport, ...] | None = ()) -> NodeSnapshot:
    """Make a node as a snapshot has it; `reports=None` is a node that was not heard yet."""
    return NodeSnapshot(node=node, state=shown_state(node), reports=reports)


def make_want(model: Model, *, claim: Claim | None = None, status: ModelStatus | None = None) -> ModelSnapshot:
    """Make a model as a snapshot has it; without a claim its shards need nothing but the node."""
    return ModelSnapshot(
        model=model,
        claim=claim or Claim(devices=model.profile.devices_per_node, device_class=model.profile.device_class),
        status=status or ModelStatus(model=model.name, revision=model.revision),
    )


def make_snapshot(
    nodes: Iterable[Node | NodeSnapshot] = (),
    models: Iterable[Model | ModelSnapshot] = (),
    replicas: Iterable[Replica] = (),
    *,
    now: datetime = NOW,
) -> Snapshot:
    """Make a snapshot in which every node was heard."""
    return Snapshot(
        now=now,
        nodes=tuple(node if isinstance(node, NodeSnapshot) else make_seen(node) for node in nodes),
        models=tuple(model if isinstance(model, ModelSnapshot) else make_want(model) for model in models),
        replicas=tuple(replicas),
    )


def carried_out(snapshot: Snapshot, plan: Plan, *, prefix: str = "rnew") -> Snapshot:
    """Give the snapshot after a plan was carried out and before any agent did anything about it."""
    leaving = {removal.replica: removal.reason for removal in plan.removals}
    staying = tuple(
        replica
        if replica.id not in leaving
        else msgspec.structs.replace(replica, state=ReplicaState.DRAINING, reason=leaving[replica.id])
        for replica in snapshot.replicas
    )
    placed = tuple(
        _placed(f"{prefix}{number:04d}", placement, snapshot.now) for number, placement in enumerate(plan.placements)
    )
    return msgspec.structs.replace(snapshot, replicas=staying + placed)


def _placed(replica_id: str, placement: Placement, now: datetime) -> Replica:
    return make_replica(
        replica_id,
        model=placement.model,
        revision=placement.revision,
        state=ReplicaState.STARTING,
        allocations=placement.allocations,
        created_at=now,
    )
