"""What a node offers, without the node's name: nodes that offer the same are judged once.

Cut in two: its kind (what running shards cannot change) and its spare room (what they can).
"""

from llmgw.core.snapshot import NodeSnapshot
from llmgw.schema.engine import EngineInstall
from llmgw.schema.node import NodeState
from llmgw.schema.value import Value

MILLI = 1000
"""Cores are counted in thousandths: whole numbers compare and add up without rounding."""


class DeviceCount(Value, frozen=True, kw_only=True):
    """Devices of one class on a node."""

    device_class: str
    total: int
    healthy: int


class Kind(Value, frozen=True, kw_only=True, cache_hash=True):
    """What a node offers, apart from what is taken of it."""

    closed: str | None
    """Why it takes nothing new, in words; `None` when it is open."""
    labels: frozenset[tuple[str, str]]
    engines: frozenset[EngineInstall] | None
    """`None`: not probed."""
    paths: frozenset[str]
    """Weights that are there, broken ones included: their model shall park with the cause."""
    missing: frozenset[str]
    """Paths it looked at and found nothing."""
    searched: bool
    """It looked for weights in folders of its own."""
    fabrics: frozenset[str]
    devices: tuple[DeviceCount, ...]
    milli_cores: int | None
    memory_bytes: int | None

    def of_class(self, device_class: str) -> DeviceCount | None:
        """Give the count of one class."""
        for count in self.devices:
            if count.device_class == device_class:
                return count
        return None


class Spare(Value, frozen=True, kw_only=True, cache_hash=True):
    """What is left of a node."""

    milli_cores: int | None
    memory_bytes: int | None
    devices: tuple[tuple[str, int], ...]
    """Healthy devices that nobody holds, per class."""

    def of_class(self, device_class: str) -> int:
        """Give the free devices of one class."""
        for name, free in self.devices:
            if name == device_class:
                return free
        return 0


def kind_of(seen: NodeSnapshot, *, trust_silent: bool = False) -> Kind:
    """Give what a node offers. `trust_silent` opens nodes that have not reported to this leader yet."""
    facts = seen.node.facts
    watched = frozenset(watch.path for watch in facts.watched if watch.present)
    return Kind(
        closed=_closed(seen, trust_silent=trust_silent),
        labels=frozenset(facts.labels.items()),
        engines=frozenset(facts.engines) if facts.engines_probed else None,
        paths=watched | frozenset(weights.path for weights in facts.weights or ()),
        missing=frozenset(watch.path for watch in facts.watched if not watch.present),
        searched=facts.weights is not None,
        fabrics=frozenset(fabric.name for fabric in facts.fabrics),
        devices=_count(seen),
        milli_cores=None if facts.host.cores_usable is None else round(facts.host.cores_usable * MILLI),
        memory_bytes=facts.memory_bytes,
    )


def _closed(seen: NodeSnapshot, *, trust_silent: bool) -> str | None:
    if seen.state is not NodeState.READY:
        return str(seen.state)
    if seen.reports is None and not trust_silent:
        return "not heard yet"
    return None


def _count(seen: NodeSnapshot) -> tuple[DeviceCount, ...]:
    totals: dict[str, int] = {}
    healthy: dict[str, int] = {}
    for device in seen.node.facts.devices:
        totals[device.device_class] = totals.get(device.device_class, 0) + 1
        healthy[device.device_class] = healthy.get(device.device_class, 0) + (device.problem is None)
    return tuple(
        DeviceCount(device_class=name, total=total, healthy=healthy[name]) for name, total in sorted(totals.items())
    )
