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
from llmgw.core.offer import Kind, Spare


class BlockRank(NamedTuple):
    """The terms that concern what the fleet loses by the choice."""

    assumed: int
    breaks: int
    left: int
    idle_devices: int


class Rank(NamedTuple):
    """All terms of one node."""

    block: BlockRank
    same_model: int
    cores: int
    memory: int
    node: str


def block_rank(kind: Kind, spare: Spare, need: Need, device_class: str | None) -> BlockRank:
    """Rank nodes of one group by what the fleet loses."""
    assumed = int(need.path is None or need.path not in kind.paths)
    if device_class is None:
        return BlockRank(assumed=assumed, breaks=0, left=0, idle_devices=sum(count.total for count in kind.devices))
    count = kind.of_class(device_class)
    free = spare.of_class(device_class)
    whole = count is not None and free == count.total
    left = free - need.devices
    return BlockRank(assumed=assumed, breaks=int(whole and left > 0), left=left, idle_devices=0)


def node_rank(block: BlockRank, spare: Spare, *, same_model: int, node: str) -> Rank:
    """Rank one node. Unknown cores and memory come last: unknown is not free."""
    return Rank(
        block=block,
        same_model=same_model,
        cores=-(spare.milli_cores or 0),
        memory=-(spare.memory_bytes or 0),
        node=node,
    )
