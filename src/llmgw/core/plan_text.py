"""Plans and refusals in words. Each sentence is made here only, so that text, page and JSON cannot disagree."""

from collections import Counter
from collections.abc import Iterator, Sequence

from llmgw.core.amounts import cores_text, counted, memory_text
from llmgw.schema.plan import Allocation, Constraint, Placement, Plan, Rejection, Shortfall

_ORDER = {constraint: position for position, constraint in enumerate(Constraint)}
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
    if total_nodes == 0:
        return "there are no nodes yet"
    if len(rejections) == 1 and total_nodes == 1:
        return f"1 node: {rejections[0].node} {_alone(rejections[0])}"
    counts = Counter(_group(rejection) for rejection in rejections)
    groups = sorted(counts.items(), key=lambda item: (-item[1], _ORDER[item[0][0]], item[0][1]))
    return f"{counted(total_nodes, 'node')}: " + ", ".join(_grouped(*key, count) for key, count in groups)


def _alone(rejection: Rejection) -> str:
    is_state = rejection.constraint is Constraint.NOT_READY
    return f"is {rejection.detail}" if is_state else rejection.detail


def _group(rejection: Rejection) -> tuple[Constraint, str]:
    """What is told together: amounts differ from node to node and are summed, names are worth telling apart."""
    if rejection.constraint in _SUMMED:
        return rejection.constraint, _SUMMED[rejection.constraint]
    if rejection.constraint is Constraint.WEIGHTS:
        return rejection.constraint, "lacks the weights"
    if rejection.constraint is Constraint.FABRIC and rejection.detail.startswith("fits"):
        return rejection.constraint, "too few in one fabric"
    return rejection.constraint, rejection.detail


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
