"""Nodes of one kind with equally many free devices, kept in the order in which they would be chosen."""

from bisect import bisect_left, insort
from collections.abc import Container, Iterator
from operator import itemgetter

from llmgw.core.fit import Need
from llmgw.core.offer import Kind

Entry = tuple[int, int, str]
"""Cores (thousandths) and memory left, both negated so that the most comes first, and the node. Unknown counts as 0
here: unknown is not much."""


class Shelf:
    """The order is most cores, then most memory, then by id. What fits is then found near the front."""

    __slots__ = ("_most_memory", "entries", "free", "kind")

    def __init__(self, kind: Kind, free: tuple[int, ...]) -> None:
        self.kind = kind
        self.free = free
        """Free devices, in the order of `kind.devices`."""
        self.entries: list[Entry] = []
        self._most_memory = 0
        """No node has more. May be too high: what left may have had the most."""

    def fill(self, entries: list[Entry]) -> None:
        """Take in many nodes."""
        self.entries = sorted(entries)
        self._most_memory = max(0, max((-memory for _, memory, _ in entries), default=0))

    def put(self, entry: Entry) -> None:
        """Take in a node."""
        insort(self.entries, entry)
        self._most_memory = max(self._most_memory, -entry[1])

    def take(self, entry: Entry) -> None:
        """Take a node out."""
        del self.entries[bisect_left(self.entries, entry)]

    def fits(self, entry: Entry, need: Need) -> bool:
        """True when a node has the cores and memory needed; 0 fits also where more is held than there is."""
        cores = need.milli_cores == 0 or not self.kind.cores_known or -entry[0] >= need.milli_cores
        memory = need.memory_bytes == 0 or not self.kind.memory_known or -entry[1] >= need.memory_bytes
        return cores and memory

    def fitting(self, need: Need, among: Container[str] | None, without: Container[str]) -> Iterator[Entry]:
        """Give the nodes with the cores and memory needed, in order.

        `among` names those to look at, `None` is all; `without` those to leave out.
        """
        cores = need.milli_cores if self.kind.cores_known else 0
        memory = need.memory_bytes if self.kind.memory_known else 0
        if memory > self._most_memory:
            return
        for entry in self.entries:
            if cores and -entry[0] < cores:
                return
            if memory and -entry[1] < memory:
                continue
            if entry[2] not in without and (among is None or entry[2] in among):
                yield entry

    def with_cores(self, need: Need, entries: list[Entry]) -> int:
        """Give how many of `entries`, which are in order, have the cores needed: those from the front."""
        if need.milli_cores == 0 or not self.kind.cores_known:
            return len(entries)
        return bisect_left(entries, 1 - need.milli_cores, key=itemgetter(0))

    def with_memory(self, need: Need, entries: list[Entry]) -> list[Entry]:
        """Give those of `entries` that have the memory needed."""
        if need.memory_bytes == 0 or not self.kind.memory_known:
            return entries
        if need.memory_bytes > self._most_memory:
            return []
        return [entry for entry in entries if -entry[1] >= need.memory_bytes]
