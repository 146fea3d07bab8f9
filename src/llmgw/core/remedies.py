"""Changes that may make a model fit, from a label on a node to new hardware. Whether they do, the planner says."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from llmgw.core import what_if
from llmgw.core.amounts import counted, memory_text
from llmgw.core.demand import desired_replicas
from llmgw.core.fit import Need, Refusal
from llmgw.core.gaps import ROOM, Gap, teams
from llmgw.core.hardware_wish import wish
from llmgw.core.snapshot import ModelSnapshot, Snapshot
from llmgw.core.victims import victims
from llmgw.core.what_if import Edit
from llmgw.schema.admin.explain import ChangeKind
from llmgw.schema.node import NodeState
from llmgw.schema.plan import Constraint

TEAMS = 4
"""Sets of nodes that are looked at for each kind of change."""
_GIB = 1024**3
_TENTH = _GIB // 10


class Remedy(NamedTuple):
    """One change. `cost` orders: small ones touch nothing that runs, the largest are bought."""

    cost: int
    kind: ChangeKind
    text: str
    commands: tuple[str, ...]
    edit: Edit


def remedies(snapshot: Snapshot, model: ModelSnapshot, need: Need, found: list[Gap]) -> list[Remedy]:
    """Give all changes that are worth a try, the smallest first."""
    every = [
        *_on_nodes(snapshot, model, need, found),
        *_in_model(snapshot, model, need, found),
        *_hardware(snapshot, need, found),
    ]
    once = {
        remedy.text: remedy for remedy in sorted(every, key=lambda remedy: (remedy.cost, remedy.text), reverse=True)
    }
    return sorted(once.values(), key=lambda remedy: (remedy.cost, remedy.text))


# On the nodes there are ----------------------------------------------------------------------------


def _on_nodes(snapshot: Snapshot, model: ModelSnapshot, need: Need, found: list[Gap]) -> Iterator[Remedy]:
    fixable = [gap for gap in found if not gap.constraints & {Constraint.DEVICE_CLASS, Constraint.FABRIC}]
    states = {seen.node.id: seen.state for seen in snapshot.nodes}
    for team in islice(teams(fixable, need), TEAMS):
        fixes = [fix for gap in team for fix in _fixes(gap, states[gap.node], model, need)]
        crowded = [gap for gap in team if gap.constraints & ROOM]
        if not crowded:
            if fixes:
                yield _together(fixes)
            continue
        for room in (_repaired(crowded, need), _cleared(snapshot, crowded, model, need)):
            if room is not None:
                yield _together([*fixes, room])


def _fixes(gap: Gap, state: NodeState, model: ModelSnapshot, need: Need) -> Iterator[Remedy]:
    for refusal in gap.lacks:
        fix = _fix(gap, refusal, state, model, need)
        if fix is not None:
            yield fix


def _fix(gap: Gap, refusal: Refusal, state: NodeState, model: ModelSnapshot, need: Need) -> Remedy | None:
    node, profile = gap.node, model.model.profile
    match refusal.constraint:
        case Constraint.NOT_READY if state in {NodeState.CORDONED, NodeState.DRAINING}:
            commands = (f"llmgw ctl node uncordon {node}",)
            return Remedy(1, ChangeKind.NODE, f"uncordon {node}", commands, what_if.open_node(node))
        case Constraint.NOT_READY if state is NodeState.READY:
            text = f"wait for {node}, which is {refusal.detail}"
            return Remedy(0, ChangeKind.NODE, text, (), what_if.open_node(node))
        case Constraint.NOT_READY:
            text = f"bring {node} back, which is {refusal.detail}"
            return Remedy(8, ChangeKind.NODE, text, (), what_if.open_node(node))
        case Constraint.SELECTOR:
            missing = dict(sorted(need.selector - gap.kind.labels))
            text = f"label {node} " + ", ".join(f"{name}={value}" for name, value in missing.items())
            return Remedy(2, ChangeKind.NODE, text, (), what_if.with_labels(node, missing))
        case Constraint.ENGINE:
            wanted = " ".join(part for part in (need.engine, need.engine_version, need.variant) if part)
            edit = what_if.with_engine(node, profile.engine, profile.engine_version, profile.variant)
            return Remedy(4, ChangeKind.NODE, f"install {wanted} on {node}", (), edit)
        case Constraint.WEIGHTS if need.path is not None:
            text = f"put the weights {need.path} on {node}"
            return Remedy(5, ChangeKind.NODE, text, (), what_if.with_weights(node, need.path))
        case _:
            return None


def _repaired(crowded: list[Gap], need: Need) -> Remedy | None:
    """Mend the faulty devices of nodes that would have enough with them."""
    parts = []
    for gap in crowded:
        if gap.constraints & ROOM != {Constraint.DEVICES_BUSY}:
            return None
        broken = [c for c in gap.kind.devices if c.healthy < c.total and need.device_class in (None, c.device_class)]
        enough = [c for c in broken if gap.spare.of_class(c.device_class) + c.total - c.healthy >= need.devices]
        if not enough:
            return None
        count = enough[0].total - enough[0].healthy
        text = f"mend {counted(count, 'unhealthy device')} ({enough[0].device_class}) of {gap.node}"
        parts.append(Remedy(8, ChangeKind.NODE, text, (), what_if.with_healthy_devices(gap.node)))
    return _together(parts)


def _cleared(snapshot: Snapshot, crowded: list[Gap], model: ModelSnapshot, need: Need) -> Remedy | None:
    """Let other models have fewer replicas where they are in the way."""
    going: dict[str, str] = {}
    for gap in crowded:
        found = victims(snapshot, gap, model.model.name, need)
        if found is None:
            return None
        going.update({replica.id: replica.model for replica in found})
    fewer = Counter(going.values())
    desired = {seen.model.name: desired_replicas(seen.model, seen.wanted) for seen in snapshot.models}
    parts = []
    for name, by in sorted(fewer.items()):
        left = max(0, desired[name] - by)
        commands = (f"llmgw ctl model scale {name} {left}",)
        text = f"scale {name} from {desired[name]} to {counted(left, 'replica')}"
        parts.append(Remedy(10 * by, ChangeKind.OTHERS, text, commands, what_if.with_fewer(name, by)))
    return _together(parts) if parts else None


def _together(parts: list[Remedy]) -> Remedy:
    return Remedy(
        sum(part.cost for part in parts),
        ChangeKind.OTHERS if any(part.kind is ChangeKind.OTHERS for part in parts) else parts[0].kind,
        " and ".join(part.text for part in parts),
        tuple(command for part in parts for command in part.commands),
        what_if.all_of(part.edit for part in parts),
    )


# In what the model asks for ------------------------------------------------------------------------


def _in_model(snapshot: Snapshot, model: ModelSnapshot, need: Need, found: list[Gap]) -> Iterator[Remedy]:
    name, profile = model.model.name, model.model.profile
    if need.selector:
        text = f"let {name} run on nodes with any label"
        yield Remedy(3, ChangeKind.MODEL, text, (), what_if.with_profile(name, node_selector={}))
    if need.fabric is not None:
        text = f"let {name} run in any fabric, not only {need.fabric}"
        yield Remedy(3, ChangeKind.MODEL, text, (), what_if.with_profile(name, fabric=None))
    if need.engine_version is not None or need.variant is not None:
        text = f"let {name} run with any version of {profile.engine}"
        edit = what_if.with_profile(name, engine_version=None, variant=None)
        yield Remedy(4, ChangeKind.MODEL, text, (), edit)
    yield from _smaller(snapshot, model, need, found)


def _smaller(snapshot: Snapshot, model: ModelSnapshot, need: Need, found: list[Gap]) -> Iterator[Remedy]:
    name = model.model.name
    short_of_memory = [gap for gap in found if gap.constraints <= {Constraint.MEMORY}]
    for team in islice(teams(_by_memory(short_of_memory), need), 1):
        left = min(_memory(gap) for gap in team) // _TENTH * _TENTH
        if _least_memory(snapshot, need) <= left < need.memory_bytes:
            text = (
                f"let {name} claim {memory_text(left)} of memory instead of {memory_text(need.memory_bytes)} "
                "(a smaller context, fewer slots)"
            )
            yield Remedy(6, ChangeKind.MODEL, text, (), what_if.with_claim(name, memory_bytes=left))
    short_of_cores = [gap for gap in found if gap.constraints <= {Constraint.CORES}]
    for team in islice(teams(_by_cores(short_of_cores), need), 1):
        left = min(gap.spare.milli_cores or 0 for gap in team) // 1000
        if 1 <= left < need.milli_cores / 1000:
            text = f"let {name} claim {counted(left, 'core')} instead of {need.milli_cores / 1000:g}"
            yield Remedy(6, ChangeKind.MODEL, text, (), what_if.with_claim(name, cores=float(left)))


def _by_memory(found: Iterable[Gap]) -> list[Gap]:
    return sorted(found, key=lambda gap: (-_memory(gap), gap.node))


def _by_cores(found: Iterable[Gap]) -> list[Gap]:
    return sorted(found, key=lambda gap: (-(gap.spare.milli_cores or 0), gap.node))


def _memory(gap: Gap) -> int:
    return max(0, gap.spare.memory_bytes or 0)


def _least_memory(snapshot: Snapshot, need: Need) -> int:
    """Give what no claim may be below: on processors the weights themselves lie in it."""
    if need.devices or need.path is None:
        return _TENTH
    sizes = (w.size_bytes for seen in snapshot.nodes for w in seen.node.facts.weights or () if w.path == need.path)
    return max(_TENTH, next(sizes, 0))


# New hardware --------------------------------------------------------------------------------------


def _hardware(snapshot: Snapshot, need: Need, found: list[Gap]) -> Iterator[Remedy]:
    wanted = wish(snapshot, need, found)
    edits = (what_if.with_node(wanted.template, f"new-{number}") for number in range(1, wanted.nodes + 1))
    yield Remedy(100 * wanted.nodes, ChangeKind.HARDWARE, wanted.text, (), what_if.all_of(edits))
