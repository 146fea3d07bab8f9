"""Which of the nodes that fit is best: terms in order of weight, lower is better, the first difference decides.

1. weights seen there before weights only assumed
2. no node that is wholly free is broken into; then the tightest fit, so that big blocks stay whole
3. a node without devices for a replica that needs none
4. few replicas of the same model on the node
5. most cores and memory left, in whole GiB: equal machines differ by a few pages
6. few recent failures of the same model on the node
7. the last bytes of memory, then the node's id, so that the answer never depends on the order of the input
"""

from collections.abc import Mapping
from typing import NamedTuple

from llmgw.core.offer import Kind
from llmgw.core.shelf import Entry

GIB = 2**30
BlockRank = tuple[int, int, int, int]
"""The terms that concern what the fleet loses by the choice: weights only assumed, a whole node broken into, devices of
the class left free, devices of a node that needs none left idle. A plain tuple: one is made for every shelf asked."""


class Beside(NamedTuple):
    """What speaks against single nodes for one more replica of a model, counted by node."""

    replicas: Mapping[str, int]
    """The model's replicas."""
    failures: Mapping[str, int]
    """Starts that failed and deaths, those of the last hour."""


class Rank(NamedTuple):
    """All terms of one node."""

    block: BlockRank
    same_model: int
    cores: int
    memory_gib: int
    failures: int
    memory: int
    node: str


def rank(block: BlockRank, entry: Entry, beside: Beside) -> Rank:
    """Rank one node of a shelf."""
    cores, memory, node = entry
    return Rank(block, beside.replicas.get(node, 0), cores, memory // GIB, beside.failures.get(node, 0), memory, node)


def block_rank(kind: Kind, at: int | None, free: int, devices: int, *, assumed: bool) -> BlockRank:
    """Rank nodes of one kind with equally many free devices by what the fleet loses.

    `at` is the place of the class chosen among the kind's; `None` for a need without devices.
    """
    if at is None:
        return int(assumed), 0, 0, sum([count.total for count in kind.devices])
    left = free - devices
    return int(assumed), int(left > 0 and free == kind.devices[at].total), left, 0
