"""What would have to be bought: nodes like one there is, or else nodes just large enough."""

from typing import NamedTuple

from llmgw.core.amounts import cores_text, counted, memory_text
from llmgw.core.fit import Need
from llmgw.core.gaps import ROOM, Gap
from llmgw.core.offer import MILLI
from llmgw.core.snapshot import NodeSnapshot, Snapshot
from llmgw.schema.device import Device
from llmgw.schema.fabric import Fabric
from llmgw.schema.node import Host, Node, NodeFacts, NodeState
from llmgw.schema.plan import Constraint

_NEW = "new"


class Wish(NamedTuple):
    """So many nodes more."""

    template: NodeSnapshot
    nodes: int
    text: str


def wish(snapshot: Snapshot, need: Need, found: list[Gap]) -> Wish:
    """Give the fewest nodes with which a replica would fit."""
    seen = {one.node.id: one for one in snapshot.nodes}
    likes = [gap for gap in found if _would_fit_empty(gap, need)]
    if not likes:
        fabric = need.fabric or (_NEW if need.nodes > 1 else None)
        template = _made(snapshot, need, fabric)
        return Wish(template, need.nodes, f"add {counted(need.nodes, 'node')}, {_described(need)}")
    best = min(((_lacking(gap, need, found), gap) for gap in likes), key=lambda item: (item[0][0], item[1].node))
    (count, fabric), gap = best
    where = f" to fabric {fabric}" if fabric else ""
    return Wish(seen[gap.node], count, f"add {counted(count, 'node')} like {gap.node}{where}")


def _would_fit_empty(gap: Gap, need: Need) -> bool:
    spare = gap.spare
    return (
        gap.constraints <= ROOM | {Constraint.NOT_READY}
        and (
            need.devices == 0
            or any(
                count.total >= need.devices and need.device_class in (None, count.device_class)
                for count in gap.kind.devices
            )
        )
        and (spare.of_milli_cores is None or need.milli_cores <= spare.of_milli_cores)
        and (spare.of_memory_bytes is None or need.memory_bytes <= spare.of_memory_bytes)
    )


def _lacking(gap: Gap, need: Need, found: list[Gap]) -> tuple[int, str | None]:
    """Give how many nodes like this one are missing, in its fabric where the replica needs one."""
    if need.nodes == 1:
        return 1, need.fabric
    fitting = {
        name: sum(not other.lacks and name in other.kind.fabrics for other in found) for name in gap.kind.fabrics
    }
    most, fabric = max((count, name) for name, count in sorted(fitting.items(), reverse=True))
    return max(1, need.nodes - most), fabric


def _made(snapshot: Snapshot, need: Need, fabric: str | None) -> NodeSnapshot:
    device_class = need.device_class or "gpu"
    facts = NodeFacts(
        hostname=_NEW,
        address="",
        place=_NEW,
        agent_version="",
        host=Host(os="", kernel="", machine="", cores_usable=need.milli_cores / MILLI),
        labels=dict(need.selector),
        memory_bytes=need.memory_bytes,
        devices=tuple(
            Device(id=f"{_NEW}-{index}", index=index, device_class=device_class) for index in range(need.devices)
        ),
        fabrics=() if fabric is None else (Fabric(name=fabric),),
    )
    node = Node(id=_NEW, facts=facts, registered_at=snapshot.now)
    return NodeSnapshot(node=node, state=NodeState.READY, reports=())


def _described(need: Need) -> str:
    parts = []
    if need.devices:
        parts.append(f"{need.devices} {need.device_class or 'devices of one class'}")
    if need.milli_cores:
        parts.append(f"{cores_text(need.milli_cores / MILLI)} cores")
    if need.memory_bytes:
        parts.append(f"{memory_text(need.memory_bytes)} of memory")
    if need.path is not None:
        parts.append(f"the weights {need.path}")
    each = "each with " if need.nodes > 1 else "with "
    fabric = f"fabric {need.fabric}" if need.fabric else "one fabric"
    where = "" if need.nodes == 1 and need.fabric is None else f"in {fabric}, "
    return where + each + (", ".join(parts) or f"engine {need.engine}")
