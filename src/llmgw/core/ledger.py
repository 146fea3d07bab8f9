"""What is taken of one node, and what that leaves: less than nothing where a node shrank."""

from llmgw.core.inventory import owners, schedulable
from llmgw.core.offer import MILLI, Offer, Spare
from llmgw.core.shelf import Entry
from llmgw.schema.device import Device
from llmgw.schema.node import Node
from llmgw.schema.plan import Allocation


class Ledger:
    """One node's books. Lives within one plan."""

    __slots__ = ("_cores", "_devices", "_free", "_healthy", "_memory", "_owners", "_taken", "node", "offer")

    def __init__(self, node: Node, offer: Offer) -> None:
        self.node = node
        self.offer = offer
        self._cores = 0
        self._memory = 0
        self._free = [count.healthy for count in offer.kind.devices]
        # Made when the first device is taken: most nodes of a large fleet are never asked.
        self._devices: list[Device] | None = None
        self._healthy: dict[str, int] | None = None
        self._owners: dict[str, str] = {}
        self._taken: dict[str, int] = {}

    def book(self, allocation: Allocation, *, sign: int) -> None:
        """Take what a shard holds (`sign` 1), or give it back (-1)."""
        if allocation.cores:
            self._cores += sign * round(allocation.cores * MILLI)
        if allocation.memory_bytes:
            self._memory += sign * allocation.memory_bytes
        if allocation.devices:
            self._book_devices(allocation.devices, sign)

    def free(self) -> tuple[int, ...]:
        """Give the healthy devices that nobody holds, in the order of the kind's classes."""
        return tuple(self._free)

    def entry(self) -> Entry:
        """Give the node's place among those with equal free devices."""
        cores, memory = self.offer.milli_cores, self.offer.memory_bytes
        return (
            0 if cores is None else self._cores - cores,
            0 if memory is None else self._memory - memory,
            self.node.id,
        )

    def spare(self) -> Spare:
        """Give what is left."""
        cores, memory = self.offer.milli_cores, self.offer.memory_bytes
        counts = zip(self.offer.kind.devices, self._free, strict=True)
        return Spare(
            milli_cores=None if cores is None else cores - self._cores,
            memory_bytes=None if memory is None else memory - self._memory,
            of_milli_cores=cores,
            of_memory_bytes=memory,
            devices=tuple((count.device_class, free) for count, free in counts if free),
        )

    def free_devices(self, device_class: str) -> list[Device]:
        """Give the healthy devices of one class that nobody holds, by index."""
        taken = self._taken
        return [d for d in self._sorted() if d.device_class == device_class and not taken.get(d.id)]

    def faults(self) -> str:
        """Say in words what is wrong with the node's devices, each trouble once; empty when nothing is."""
        problems = [device.problem for device in schedulable(self.node.facts.devices) if device.problem is not None]
        return "; ".join(dict.fromkeys(problems))

    def _book_devices(self, names: tuple[str, ...], sign: int) -> None:
        healthy = self._known()
        for name in names:
            owner = self._owners.get(name, name)
            before = self._taken.get(owner, 0)
            self._taken[owner] = before + sign
            at = healthy.get(owner)
            if at is not None and (before == 0) != (before + sign == 0):
                self._free[at] -= sign

    def _known(self) -> dict[str, int]:
        if self._healthy is None:
            places = {count.device_class: at for at, count in enumerate(self.offer.kind.devices)}
            self._healthy = {device.id: places[device.device_class] for device in self._sorted()}
            devices = self.node.facts.devices
            if any(device.pool is not None for device in devices):
                self._owners = owners(devices)
        return self._healthy

    def _sorted(self) -> list[Device]:
        if self._devices is None:
            healthy = [device for device in schedulable(self.node.facts.devices) if device.problem is None]
            self._devices = sorted(healthy, key=_by_index)
        return self._devices


def _by_index(device: Device) -> tuple[int, str]:
    return device.index, device.id
