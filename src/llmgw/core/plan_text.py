"""Plans and refusals in words. Each sentence is made here only, so that text, page and JSON cannot disagree."""

from collections import Counter
from collections.abc import Iterator, Sequence

from llmgw.core.amounts import cores_text, counted, memory_text
from llmgw.schema.plan import Allocation, Constraint, Placement, Plan, RefusalCount, Rejection, Shortfall

RANK = {constraint: position for position, constraint in enumerate(Constraint)}
"""Place of each constraint in the order in which they are asked: the higher, the closer to fitting."""
LACKS = "lacks the weights"
"""How a refusal for want of weights begins; their path follows."""
_SUMMED = {
    Constraint.DEVICES_BUSY: "full",
    Constraint.CORES: "short of cores",
    Constraint.MEMORY: "short of memory",
}


def plan_text(plan: Plan) -> str:
    """Give a plan as lines, removals first."""
    lines = [f"stop {removal.replica}: {removal.reason}" for removal in plan.removals]
    lines.extend(_placed(placement) for placement in plan.placements)
    lines.extend(_short(shortfall) for shortfall in plan.shortfalls)
    return "\n".join(lines or ["nothing to do"])


def sentence(rejections: Sequence[Rejection], total_nodes: int) -> str:
    """Sum refusals up: "12 nodes: 7 have no h100-80gb, 3 full, 2 lack the weights"; the commonest reason first."""
    counts = Counter((one.constraint, told_of(one.constraint, one.detail)) for one in rejections)
    groups = sorted(counts.items(), key=lambda item: (-item[1], RANK[item[0][0]], item[0][1]))
    summed = [RefusalCount(constraint=constraint, text=text, nodes=nodes) for (constraint, text), nodes in groups]
    return counted_sentence(summed, rejections, total_nodes)


def counted_sentence(counts: Sequence[RefusalCount], rejections: Sequence[Rejection], total_nodes: int) -> str:
    """Say the same of refusals that are counted already; `rejections` tells a single node in full."""
    if total_nodes == 0:
        return "there are no nodes yet"
    if rejections and {one.constraint for one in counts} == {Constraint.WEIGHTS}:
        return f"no node has weights at {rejections[0].detail.removeprefix(LACKS).strip()}"
    if len(rejections) == 1 and total_nodes == 1:
        return f"1 node: {refusal_text(rejections[0])}"
    return f"{counted(total_nodes, 'node')}: " + ", ".join(_grouped(c.constraint, c.text, c.nodes) for c in counts)


def refusal_text(rejection: Rejection) -> str:
    """Say one node's refusal: "n1 is cordoned", "n2 needs 4 cores, 2 free"."""
    is_state = rejection.constraint is Constraint.NOT_READY
    return f"{rejection.node} is {rejection.detail}" if is_state else f"{rejection.node} {rejection.detail}"


def told_of(constraint: Constraint, detail: str) -> str:
    """What is told together: amounts differ from node to node and are summed, names are worth telling apart."""
    if constraint in _SUMMED:
        return _SUMMED[constraint]
    if constraint is Constraint.WEIGHTS:
        return LACKS
    if constraint is Constraint.FABRIC and detail.startswith("fits"):
        return "too few in one fabric"
    return detail


def _grouped(constraint: Constraint, text: str, count: int) -> str:
    plural = {"has ": "have ", "lacks ": "lack ", "is ": "are "}
    if constraint not in _SUMMED and count > 1:
        first = next((word for word in plural if text.startswith(word)), "")
        text = plural.get(first, "") + text.removeprefix(first)
    return f"{count} {text}"


def _placed(placement: Placement) -> str:
    fabric = placement.allocations[0].fabric
    where = "; ".join(_held(allocation) for allocation in placement.allocations)
    return f"start {placement.model} (revision {placement.revision}) on {where}" + (
        f"; over fabric {fabric}" if fabric else ""
    )


def _held(allocation: Allocation) -> str:
    amounts = ", ".join(_amounts(allocation))
    return f"{allocation.node} ({amounts})" if amounts else allocation.node


def _amounts(allocation: Allocation) -> Iterator[str]:
    if allocation.devices:
        yield counted(len(allocation.devices), "device")
    if allocation.cores:
        yield f"{cores_text(allocation.cores)} cores"
    if allocation.memory_bytes:
        yield memory_text(allocation.memory_bytes)


def _short(shortfall: Shortfall) -> str:
    return f"short {shortfall.model}: {counted(shortfall.missing, 'replica')} missing; {shortfall.sentence}"
