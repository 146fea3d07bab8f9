"""Kinds of machines that fake nodes pretend to be, by the names `llmgw fake-nodes --kind` takes."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from llmgw.schema.device import Device
from llmgw.schema.engine import EngineInstall, EngineKind, EngineState
from llmgw.schema.errors import InvalidInput
from llmgw.schema.fabric import Fabric
from llmgw.schema.node import Host, NodeFacts
from llmgw.schema.value import Value
from llmgw.schema.weights import Weights, WeightsFormat

GIB = 1024**3
WEIGHTS_BYTES = 16 * GIB
"""Size that fake weights pretend to have."""


class NodeKind(Value, frozen=True, kw_only=True):
    """A machine: processor, memory, devices of one class, and adapters for a fabric."""

    cores: int
    memory_gib: int
    devices: int = 0
    device_class: str = ""
    device_gib: int = 0
    instances: int = 1
    """MIG instances each card is cut into; `devices` counts cards."""
    sockets: int = 1
    hcas: int = 0
    rate_gbps: float | None = None


KINDS: Mapping[str, NodeKind] = MappingProxyType(
    {
        "cpu-small": NodeKind(cores=8, memory_gib=32),
        "cpu-large": NodeKind(cores=128, memory_gib=1024, sockets=2),
        "h100x8": NodeKind(
            cores=192,
            memory_gib=2048,
            devices=8,
            device_class="h100-80gb",
            device_gib=80,
            sockets=2,
            hcas=8,
            rate_gbps=400.0,
        ),
        "h200x8": NodeKind(
            cores=192,
            memory_gib=2048,
            devices=8,
            device_class="h200-141gb",
            device_gib=141,
            sockets=2,
            hcas=8,
            rate_gbps=400.0,
        ),
        "a100x4": NodeKind(
            cores=64,
            memory_gib=512,
            devices=4,
            device_class="a100-80gb",
            device_gib=80,
            sockets=2,
            hcas=2,
            rate_gbps=200.0,
        ),
        "l40sx4": NodeKind(cores=64, memory_gib=512, devices=4, device_class="l40s-48gb", device_gib=48, sockets=2),
        "h100x8-mig": NodeKind(
            cores=192,
            memory_gib=2048,
            devices=8,
            device_class="h100-80gb/mig-1g.10gb",
            device_gib=10,
            instances=7,
            sockets=2,
        ),
    }
)


def kind_named(name: str) -> NodeKind:
    """Find a kind. Raises `InvalidInput` naming those there are."""
    found = KINDS.get(name)
    if found is not None:
        return found
    names = tuple(KINDS)
    raise InvalidInput(
        f"no kind of node is named {name!r}", hint=f"choose one of: {', '.join(names)}", field="kind", allowed=names
    )


def facts_of(
    kind: NodeKind,
    node: str,
    *,
    fabrics: Sequence[str] = (),
    weights: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    door: str | None = None,
) -> NodeFacts:
    """Give what an agent on a machine of this kind would say. Every engine is installed.

    Several fabrics have equal parts of its adapters, each its own network interface and address.
    """
    return NodeFacts(
        hostname=node,
        address="127.0.0.1",
        place=f"fake-{node}:1",
        agent_version="0",
        host=Host(
            os="Debian GNU/Linux 12",
            kernel="6.1",
            machine="x86_64",
            cores_physical=kind.cores // 2,
            cores_logical=kind.cores,
            cores_usable=float(kind.cores),
        ),
        labels=dict(labels or {}),
        memory_bytes=kind.memory_gib * GIB,
        devices=_devices(kind, node),
        fabrics=tuple(_fabric(kind, node, fabrics, part) for part in range(len(fabrics))),
        weights=tuple(
            Weights(path=path, format=WeightsFormat.GGUF, size_bytes=WEIGHTS_BYTES, context_length=8192)
            for path in weights
        ),
        engines=tuple(
            EngineInstall(kind=engine, version="fake", variant=_variant(kind, engine), state=EngineState.READY)
            for engine in EngineKind
        ),
        engines_probed=True,
        door=door,
    )


def _devices(kind: NodeKind, node: str) -> tuple[Device, ...]:
    cards = range(kind.devices)
    return tuple(
        Device(
            id=_device_id(kind, node, card, instance),
            index=card * kind.instances + instance,
            device_class=kind.device_class,
            memory_bytes=kind.device_gib * GIB,
            numa_node=card * kind.sockets // kind.devices,
        )
        for card in cards
        for instance in range(kind.instances)
    )


def _device_id(kind: NodeKind, node: str, card: int, instance: int) -> str:
    return f"GPU-{node}-{card}" if kind.instances == 1 else f"MIG-{node}-{card}-{instance}"


def _fabric(kind: NodeKind, node: str, fabrics: Sequence[str], part: int) -> Fabric:
    share = kind.hcas // len(fabrics)
    return Fabric(
        name=fabrics[part],
        hcas=tuple(f"mlx5_{number}" for number in range(part * share, (part + 1) * share)),
        rate_gbps=kind.rate_gbps,
        interface=f"ib{part}",
        address=_address(node, fabrics[part]),
    )


def _address(node: str, fabric: str) -> str:
    """Give an address that only this node has on this fabric, as far as three bytes of a checksum go."""
    drawn = zlib.crc32(f"{fabric}/{node}".encode())
    return f"10.{drawn >> 16 & 255}.{drawn >> 8 & 255}.{drawn & 255}"


def _variant(kind: NodeKind, engine: EngineKind) -> str:
    return "cpu" if engine is EngineKind.LLAMACPP or not kind.devices else "cuda"
