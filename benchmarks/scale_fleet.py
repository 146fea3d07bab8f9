"""Fleets of any size for benchmarks of what the control plane decides. Equal arguments give equal fleets."""

import random
from collections.abc import Iterable

import msgspec

from llmgw.core.snapshot import ModelSnapshot, Snapshot
from llmgw.schema.fabric import Fabric
from llmgw.schema.model import Profile
from llmgw.schema.node import Node
from llmgw.schema.plan import Claim
from llmgw.testing.factories import GIB, make_devices, make_model, make_node, make_snapshot, make_want, make_weights

H100, L40S, MIG = "h100-80gb", "l40s-48gb", "h100-80gb/mig-1g.10gb"
PATHS = tuple(f"/weights/model-{number:03}" for number in range(50))
SHARED = tuple(make_weights(path) for path in PATHS)
_SHAPES = ((1, 1),) * 85 + ((1, 2),) * 9 + ((1, 4),) * 3 + ((1, 8),) * 2 + ((2, 8),)
"""(nodes, devices a node) of a hundred models: 147 devices, so that 1,000 models just fit on 200 nodes of 8."""


def equal_nodes(count: int) -> list[Node]:
    """Nodes that differ in their names and their fabric only."""
    return [_node(f"n{number:05}", fabric=f"ib-{number * 4 // count}") for number in range(count)]


def kinds_of_nodes(count: int) -> list[Node]:
    """Nodes of forty kinds: devices, memory, labels and fabrics differ, one card in fifty is faulty."""
    rng = random.Random(1)
    nodes = []
    for number in range(count):
        zone, memory = rng.randrange(4), rng.choice([1024, 2048])
        devices = rng.choice([(H100, 8), (H100, 8), (H100, 8), (L40S, 4), (MIG, 7)])
        node = _node(f"n{number:05}", fabric=f"ib-{zone}", memory_gib=memory, devices=devices, zone=f"z{zone}")
        if number % 50 == 0:
            first, *others = node.facts.devices
            broken = (msgspec.structs.replace(first, problem="ECC: 3 uncorrectable errors"), *others)
            node = _with(node, devices=broken)
        nodes.append(node)
    return nodes


def uneven_nodes(count: int) -> list[Node]:
    """Nodes of which no two have the same memory or cores left."""
    return [
        _with(node, memory_bytes=1024 * GIB - 4096 * number, host=_cores(node, 128.0 - number / 1000))
        for number, node in enumerate(equal_nodes(count))
    ]


def local_weights(count: int) -> list[Node]:
    """Nodes with disks of their own: each holds ten of all weights."""
    rng = random.Random(2)
    return [_with(node, weights=tuple(rng.sample(SHARED, 10))) for node in equal_nodes(count)]


def models(count: int, *, replicas: int = 1) -> list[ModelSnapshot]:
    """Models as a fleet has them: most are small, some take a node, a few take two."""
    return [_model(number, replicas, *_SHAPES[number % len(_SHAPES)]) for number in range(count)]


def hopeless_models(count: int) -> list[ModelSnapshot]:
    """Models that fit nowhere, each for a reason of its own amount: too much memory, too wide, no such class."""
    reasons = (
        lambda number: _claiming(_model(number, 1, 1, 1), memory_bytes=(2100 + number) * GIB),
        lambda number: _claiming(_model(number, 1, 1, 1), device_class=f"b{number}-192gb"),
        lambda number: _model(number, 1, count, 8),
    )
    return [reasons[number % len(reasons)](number) for number in range(count)]


def snapshot(nodes: Iterable[Node], wanted: Iterable[ModelSnapshot]) -> Snapshot:
    """Nobody runs anything yet."""
    return make_snapshot(nodes, wanted)


def fixed_work() -> int:
    """Work that is the same everywhere: about 0.025 CPU seconds on a machine that does nothing else."""
    total = 0
    for number in range(1_000_000):
        total += number
    return total


def _node(
    name: str, *, fabric: str, memory_gib: int = 1024, devices: tuple[str, int] = (H100, 8), zone: str = "z0"
) -> Node:
    device_class, number = devices
    node = make_node(
        name,
        cores=128.0,
        memory_bytes=memory_gib * GIB,
        devices=make_devices(number, device_class, numa_nodes=2),
        weights=(),
        labels={"zone": zone},
    )
    return _with(node, weights=SHARED, fabrics=(Fabric(name=fabric, hcas=("mlx5_0", "mlx5_1")),))


def _model(number: int, replicas: int, nodes: int, devices: int) -> ModelSnapshot:
    profile = Profile(nodes=nodes, devices_per_node=devices, device_class=H100)
    model = make_model(f"m{number:04}", source=PATHS[number % len(PATHS)], min=replicas, max=replicas, profile=profile)
    memory = (24 + number % 40) * GIB * devices
    return make_want(model, claim=Claim(cores=4.0 * devices, memory_bytes=memory, devices=devices, device_class=H100))


def _claiming(model: ModelSnapshot, **fields: object) -> ModelSnapshot:
    return msgspec.structs.replace(model, claim=msgspec.structs.replace(model.claim, **fields))


def _with(node: Node, **fields: object) -> Node:
    return msgspec.structs.replace(node, facts=msgspec.structs.replace(node.facts, **fields))


def _cores(node: Node, cores: float) -> object:
    return msgspec.structs.replace(node.facts.host, cores_usable=cores)
