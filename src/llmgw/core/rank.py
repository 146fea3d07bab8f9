"""Which of the nodes that fit is best: terms in order of weight, lower is better, the first difference decides.

1. weights seen there before weights only assumed
2. no node that is wholly free is broken into; then the tightest fit, so that big blocks stay whole
3. a node without devices for a replica that needs none
4. few replicas of the same model on the node
5. most cores and memory left
6. the node's id, so that the answer never depends on the order of the input
"""

from typing import NamedTuple

from llmgw.core.fit import Need
from llmgw.core.offer import Kind

BlockRank = tuple[int, int, int, int]
"""The terms that concern what the fleet loses by the choice: weights only assumed, a whole node broken into, devices of
the class left free, devices of a node that needs none left idle. A plain tuple: one is made for every shelf asked."""


class Rank(NamedTuple):
    """All terms of one node."""

    block: BlockRank
    same_model: int
    cores: int
    memory: int
    node: str


def block_rank(kind: Kind, at: int | None, free: int, need: Need, *, assumed: bool) -> BlockRank:
    """Rank nodes of one kind with equally many free devices by what the fleet loses.

    `at` is the place of the class chosen among the kind's; `None` for a need without devices.
    """
    if at is None:
        return int(assumed), 0, 0, sum([count.total for count in kind.devices])
    left = free - need.devices
    return int(assumed), int(left > 0 and free == kind.devices[at].total), left, 0
