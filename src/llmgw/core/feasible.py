"""Which nodes can take a shard: all nodes grouped by equal offer, and the room left as a plan fills it."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from llmgw.core.fit import Need, Refusal, classes_of, fits, kind_refusal, may_yet_find, spare_refusal
from llmgw.core.offer import MILLI, Kind, Spare, kind_of
from llmgw.core.snapshot import NodeSnapshot
from llmgw.schema.device import Device
from llmgw.schema.plan import Allocation, Constraint, Rejection
from llmgw.schema.replica import Replica


class Group(NamedTuple):
    """Nodes that offer the same; `nodes` sorted."""

    kind: Kind
    spare: Spare
    nodes: Sequence[str]


class Rooms:
    """The room on all nodes. Lives within one plan; `claim` takes of it, `release` gives back."""

    def __init__(
        self, nodes: Iterable[NodeSnapshot], replicas: Iterable[Replica], *, trust_silent: bool = False
    ) -> None:
        self._ledgers = {seen.node.id: _Ledger(seen, trust_silent=trust_silent) for seen in nodes}
        for replica in replicas:
            for shard in replica.shards:
                if (ledger := self._ledgers.get(shard.allocation.node)) is not None:
                    ledger.book(shard.allocation, sign=1)
        self._groups: dict[Kind, dict[Spare, list[str]]] = {}
        for node in sorted(self._ledgers):
            self._enter(node)
        self._with_path: dict[str, list[Kind]] = {}
        for kind in self._groups:
            for path in kind.paths:
                self._with_path.setdefault(path, []).append(kind)
        self._unsearched = [kind for kind in self._groups if not kind.searched]
        self._open: dict[Need, tuple[Kind, ...]] = {}
        self.classes = tuple(sorted({count.device_class for kind in self._groups for count in kind.devices}))
        self.fabrics = tuple(sorted({fabric for kind in self._groups for fabric in kind.fabrics}))

    def candidates(self, need: Need, device_class: str | None, fabric: str | None) -> Iterator[Group]:
        """Give the nodes that can take a shard now, in a class and, where named, in a fabric."""
        for kind in self._open_kinds(need):
            if fabric is not None and fabric not in kind.fabrics:
                continue
            for spare, nodes in self._groups[kind].items():
                if fits(spare, need, device_class):
                    yield Group(kind, spare, nodes)

    def free_devices(self, node: str, device_class: str) -> tuple[Device, ...]:
        """Give the healthy devices of one class that nobody holds, by index."""
        free = [device for device in self._ledgers[node].free.values() if device.device_class == device_class]
        return tuple(sorted(free, key=lambda device: (device.index, device.id)))

    def claim(self, allocation: Allocation) -> None:
        """Take what a shard will hold."""
        self._rebook(allocation, sign=1)

    def release(self, allocation: Allocation) -> None:
        """Give back what a shard held; a no-op for a node that is gone."""
        self._rebook(allocation, sign=-1)

    def rejections(self, need: Need) -> tuple[Rejection, ...]:
        """Tell for each node why it is not part of a replica, sorted by node."""
        told: list[Rejection] = []
        for kind, spares in self._groups.items():
            for spare, nodes in spares.items():
                why = self._why(kind, spare, need)
                told.extend(Rejection(node=node, constraint=why.constraint, detail=why.detail) for node in nodes)
        return tuple(sorted(told, key=lambda rejection: rejection.node))

    def may_yet_find(self, need: Need) -> bool:
        """True when some node lacks nothing but weights it has not looked for yet."""
        return any(may_yet_find(kind, need) for kind in self._groups)

    def _open_kinds(self, need: Need) -> tuple[Kind, ...]:
        found = self._open.get(need)
        if found is None:
            possible = self._groups if need.path is None else self._with_weights(need.path)
            found = tuple(kind for kind in possible if kind_refusal(kind, need) is None)
            self._open[need] = found
        return found

    def _with_weights(self, path: str) -> list[Kind]:
        holders = self._with_path.get(path, [])
        return holders + [kind for kind in self._unsearched if path not in kind.paths]

    def _why(self, kind: Kind, spare: Spare, need: Need) -> Refusal:
        refusal = kind_refusal(kind, need)
        if refusal is not None:
            return refusal
        refusals = [spare_refusal(kind, spare, need, name) for name in classes_of(need, self.classes)]
        if len(refusals) == 1 and refusals[0] is not None:
            return refusals[0]
        if None not in refusals:
            return spare_refusal(kind, spare, need, None) or _alone(need)
        return _alone(need)

    def _enter(self, node: str) -> None:
        ledger = self._ledgers[node]
        insort(self._groups.setdefault(ledger.kind, {}).setdefault(ledger.spare(), []), node)

    def _leave(self, node: str) -> None:
        ledger = self._ledgers[node]
        spares, spare = self._groups[ledger.kind], ledger.spare()
        del spares[spare][bisect_left(spares[spare], node)]
        if not spares[spare]:
            del spares[spare]

    def _rebook(self, allocation: Allocation, *, sign: int) -> None:
        ledger = self._ledgers.get(allocation.node)
        if ledger is None:
            return
        self._leave(allocation.node)
        ledger.book(allocation, sign=sign)
        self._enter(allocation.node)


class _Ledger:
    """What is taken of one node. More than it has may be taken, when it shrank: then less than nothing is left."""

    def __init__(self, seen: NodeSnapshot, *, trust_silent: bool) -> None:
        self.kind = kind_of(seen, trust_silent=trust_silent)
        self._healthy = {device.id: device for device in seen.node.facts.devices if device.problem is None}
        self.free = dict(self._healthy)
        self._milli_cores = 0
        self._memory_bytes = 0

    def book(self, allocation: Allocation, *, sign: int) -> None:
        self._milli_cores += sign * round((allocation.cores or 0.0) * MILLI)
        self._memory_bytes += sign * (allocation.memory_bytes or 0)
        for name in allocation.devices:
            if sign > 0:
                self.free.pop(name, None)
            elif name in self._healthy:
                self.free[name] = self._healthy[name]

    def spare(self) -> Spare:
        counts: dict[str, int] = {}
        for device in self.free.values():
            counts[device.device_class] = counts.get(device.device_class, 0) + 1
        kind = self.kind
        return Spare(
            milli_cores=None if kind.milli_cores is None else kind.milli_cores - self._milli_cores,
            memory_bytes=None if kind.memory_bytes is None else kind.memory_bytes - self._memory_bytes,
            devices=tuple(sorted(counts.items())),
        )


def _alone(need: Need) -> Refusal:
    where = f"fabric {need.fabric} has not" if need.fabric else "no fabric has"
    return Refusal(constraint=Constraint.FABRIC, detail=f"fits, but {where} {need.nodes} such nodes")
