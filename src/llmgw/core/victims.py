"""Which other models would have to give room on a node for one more shard."""

from itertools import combinations

from llmgw.core.fit import Need
from llmgw.core.gaps import Gap
from llmgw.core.offer import MILLI
from llmgw.core.snapshot import Snapshot
from llmgw.schema.plan import Allocation
from llmgw.schema.replica import Replica, ReplicaState

MOST = 3
"""More models than that are not asked to give room for one replica."""


def victims(snapshot: Snapshot, gap: Gap, model: str, need: Need) -> tuple[Replica, ...] | None:
    """Give the fewest replicas of other models without which the node would have room.

    `None` when not even `MOST` suffice. Of equally many those that hold least go.
    """
    classes = {
        device.id: device.device_class
        for seen in snapshot.nodes
        if seen.node.id == gap.node
        for device in seen.node.facts.devices
    }
    held = sorted(
        (
            (_held(replica, gap.node), replica)
            for replica in snapshot.replicas
            if replica.model not in snapshot.kept and _may_go(replica, model, gap.node)
        ),
        key=lambda item: (_size(item[0]), item[1].model, item[1].id),
    )
    for count in range(1, MOST + 1):
        for chosen in combinations(held, count):
            if _suffice([allocation for allocation, _ in chosen], gap, need, classes):
                return tuple(replica for _, replica in chosen)
    return None


def _may_go(replica: Replica, model: str, node: str) -> bool:
    return (
        replica.model != model
        and replica.state is not ReplicaState.DRAINING
        and any(shard.allocation.node == node for shard in replica.shards)
    )


def _held(replica: Replica, node: str) -> Allocation:
    return next(shard.allocation for shard in replica.shards if shard.allocation.node == node)


def _size(allocation: Allocation) -> tuple[int, int, float]:
    return len(allocation.devices), allocation.memory_bytes or 0, allocation.cores or 0.0


def _suffice(freed: list[Allocation], gap: Gap, need: Need, classes: dict[str, str]) -> bool:
    spare = gap.spare
    cores = None if spare.milli_cores is None else spare.milli_cores + sum(round((a.cores or 0) * MILLI) for a in freed)
    memory = None if spare.memory_bytes is None else spare.memory_bytes + sum(a.memory_bytes or 0 for a in freed)
    free = dict(spare.devices)
    for name in (device for allocation in freed for device in allocation.devices):
        if (device_class := classes.get(name)) is not None:
            free[device_class] = free.get(device_class, 0) + 1
    most = max((n for name, n in free.items() if need.device_class in (None, name)), default=0)
    return (
        (cores is None or need.milli_cores <= cores)
        and (memory is None or need.memory_bytes <= memory)
        and need.devices <= most
    )
