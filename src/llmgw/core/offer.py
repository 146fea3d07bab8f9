"""What a node offers, without the node's name: nodes that offer the same are judged once.

Cut in three: its kind, its sight (the weights it sees), and its amounts of cores and memory, of which no two nodes have
the same. What replicas leave of the amounts and the devices is its spare room.
"""

import msgspec

from llmgw.core.inventory import schedulable
from llmgw.core.snapshot import NodeSnapshot
from llmgw.schema.engine import EngineInstall
from llmgw.schema.node import NodeFacts, NodeState
from llmgw.schema.value import Value

MILLI = 1000
"""Cores are counted in thousandths: whole numbers compare and add up without rounding."""
_SPARE = 1000
"""Entries that may be remembered for nothing."""


class DeviceCount(Value, frozen=True, kw_only=True):
    """Devices of one class on a node."""

    device_class: str
    total: int
    healthy: int


class Kind(Value, frozen=True, kw_only=True, cache_hash=True):
    """What a node offers, apart from weights, amounts, and what is taken of it."""

    closed: str | None
    """Why it takes nothing new, in words; `None` when it is open."""
    labels: frozenset[tuple[str, str]]
    engines: frozenset[EngineInstall] | None
    """`None`: not probed."""
    fabrics: frozenset[str]
    devices: tuple[DeviceCount, ...]
    """By class."""
    cores_known: bool
    memory_known: bool

    def of_class(self, device_class: str) -> DeviceCount | None:
        """Give the count of one class."""
        at = self.place_of(device_class)
        return None if at is None else self.devices[at]

    def place_of(self, device_class: str) -> int | None:
        """Give the place of a class in `devices`; `None` when there is no such device."""
        for at, count in enumerate(self.devices):
            if count.device_class == device_class:
                return at
        return None


class Sight(Value, frozen=True, kw_only=True, cache_hash=True):
    """The weights a node sees."""

    paths: frozenset[str]
    """Weights that are there, broken ones included: their model shall park with the cause."""
    missing: frozenset[str]
    """Paths it looked at and found nothing."""
    searched: bool
    """It looked for weights in folders of its own."""


class Spare(Value, frozen=True, kw_only=True):
    """What is left of a node."""

    milli_cores: int | None
    memory_bytes: int | None
    of_milli_cores: int | None
    """All there are."""
    of_memory_bytes: int | None
    devices: tuple[tuple[str, int], ...]
    """Healthy devices that nobody holds, per class."""

    def of_class(self, device_class: str) -> int:
        """Give the free devices of one class."""
        for name, free in self.devices:
            if name == device_class:
                return free
        return 0


class Offer(Value, frozen=True, kw_only=True):
    """All that one node offers."""

    kind: Kind
    sight: Sight
    milli_cores: int | None
    memory_bytes: int | None


class Offers:
    """Makes offers; equal ones are the same object, and a node whose facts are the same object is not read again.

    What it remembers never changes an answer. So one may be kept from plan to plan.
    """

    def __init__(self) -> None:
        self._read: dict[str, tuple[NodeFacts, Offer]] = {}
        self._kinds: dict[Kind, Kind] = {}
        self._sights: dict[Sight, Sight] = {}
        self._closed: dict[tuple[int, str], Kind] = {}

    def of(self, seen: NodeSnapshot, *, trust_silent: bool = False) -> Offer:
        """Give what a node offers. `trust_silent` opens nodes that have not reported to this leader yet."""
        facts = seen.node.facts
        known = self._read.get(seen.node.id)
        if known is None or known[0] is not facts:
            known = (facts, self._open(facts))
            self._read[seen.node.id] = known
        offer = known[1]
        why = _closed(seen, trust_silent=trust_silent)
        return offer if why is None else msgspec.structs.replace(offer, kind=self._shut(offer.kind, why))

    def trim(self, nodes: int) -> None:
        """Forget everything once most of what is remembered is of nodes that are no more."""
        if max(len(self._read), len(self._kinds), len(self._sights)) > 2 * nodes + _SPARE:
            self._read.clear()
            self._closed.clear()
            self._kinds.clear()
            self._sights.clear()

    def _open(self, facts: NodeFacts) -> Offer:
        kind, sight, cores = _kind(facts), _sight(facts), facts.host.cores_usable
        return Offer(
            kind=self._kinds.setdefault(kind, kind),
            sight=self._sights.setdefault(sight, sight),
            milli_cores=None if cores is None else round(cores * MILLI),
            memory_bytes=facts.memory_bytes,
        )

    def _shut(self, kind: Kind, why: str) -> Kind:
        found = self._closed.get((id(kind), why))
        if found is None:
            found = msgspec.structs.replace(kind, closed=why)
            found = self._closed[id(kind), why] = self._kinds.setdefault(found, found)
        return found


def _kind(facts: NodeFacts) -> Kind:
    return Kind(
        closed=None,
        labels=frozenset(facts.labels.items()),
        engines=frozenset(facts.engines) if facts.engines_probed else None,
        fabrics=frozenset([fabric.name for fabric in facts.fabrics]),
        devices=_count(facts),
        cores_known=facts.host.cores_usable is not None,
        memory_known=facts.memory_bytes is not None,
    )


def _sight(facts: NodeFacts) -> Sight:
    paths = [weights.path for weights in facts.weights or ()]
    return Sight(
        paths=frozenset(paths + [watch.path for watch in facts.watched if watch.present]),
        missing=frozenset([watch.path for watch in facts.watched if not watch.present]),
        searched=facts.weights is not None,
    )


def _closed(seen: NodeSnapshot, *, trust_silent: bool) -> str | None:
    if seen.state is not NodeState.READY:
        return str(seen.state)
    if seen.reports is None and not trust_silent:
        return "not heard yet"
    if seen.settling:
        return "settling after a silence"
    return None


def _count(facts: NodeFacts) -> tuple[DeviceCount, ...]:
    counts: dict[str, list[int]] = {}
    for device in schedulable(facts.devices):
        count = counts.get(device.device_class)
        if count is None:
            count = counts[device.device_class] = [0, 0]
        count[0] += 1
        if device.problem is None:
            count[1] += 1
    return tuple(
        [
            DeviceCount(device_class=name, total=total, healthy=healthy)
            for name, (total, healthy) in sorted(counts.items())
        ]
    )
