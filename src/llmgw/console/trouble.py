"""What is wrong with a node, in words, worst first; and why there are no figures of it."""

from collections.abc import Iterator

from llmgw.console.harm import Harm
from llmgw.schema.admin.node import NodeRow
from llmgw.schema.node import NodeState, Replacement
from llmgw.schema.value import Value

_FLAPS = 2
"""So many silences within ten minutes are no accident."""
_SCARCE = 0.05
"""Below this share of memory left, the kernel soon ends processes."""
_WAITING_PERCENT = 10.0
"""Tasks that wait for memory this much of the time make everything on the node slow."""

_SILENT = {
    Replacement.ALLOWED: "its agent is silent",
    Replacement.HELD: "fell silent together with many others; nothing is replaced yet",
    Replacement.RELEASED: "its agent is silent, and its replicas may be replaced",
    Replacement.SERVING: "its agent is silent, its engines answer",
}


class Trouble(Value, frozen=True, kw_only=True):
    """One sentence about a node."""

    harm: Harm
    text: str


def troubles(row: NodeRow, *, leads: bool) -> tuple[Trouble, ...]:
    """Give all that is wrong with a node. A control plane that does not lead hears no node and blames none for it."""
    found = (*_reachability(row, leads=leads), *_devices(row), *_surroundings(row), *_scarcity(row))
    return tuple(sorted(found, key=lambda one: list(Harm).index(one.harm)))


def why_no_figures(row: NodeRow, *, leads: bool) -> str | None:
    """Say why nothing is known of a node's load now; `None` when something is."""
    if row.load is not None:
        return None
    if not leads:
        return "only the control plane that leads hears nodes"
    if not row.connected:
        return "its agent is not connected"
    return "no measurement within the last minute"


def _reachability(row: NodeRow, *, leads: bool) -> Iterator[Trouble]:
    if row.state is NodeState.LOST:
        yield Trouble(harm=Harm.BROKEN, text="lost: its replicas are replaced elsewhere")
    elif row.state is NodeState.UNREACHABLE:
        yield Trouble(harm=Harm.BROKEN, text=_SILENT[row.replacement])
    elif leads and row.load is None:
        yield Trouble(harm=Harm.SOON, text=f"no figures: {why_no_figures(row, leads=leads)}")
    if row.flaps >= _FLAPS:
        yield Trouble(harm=Harm.SOON, text=f"fell silent {row.flaps} times within ten minutes")


def _devices(row: NodeRow) -> Iterator[Trouble]:
    for device in row.facts.devices:
        if device.problem:
            yield Trouble(harm=Harm.SOON, text=f"device {device.index}: {device.problem}")


def _surroundings(row: NodeRow) -> Iterator[Trouble]:
    for problem in row.facts.problems:
        yield Trouble(harm=Harm.BROKEN, text=problem)
    for fabric in row.facts.fabrics:
        for warning in fabric.warnings:
            yield Trouble(harm=Harm.SOON, text=f"fabric {fabric.name}: {warning}")
    for storage in row.facts.storage or ():
        if storage.problem:
            yield Trouble(harm=Harm.SOON, text=f"storage {storage.mount}: {storage.problem}")
    for folder in row.facts.weights_folders:
        for problem in folder.problems:
            yield Trouble(harm=Harm.SOON, text=f"weights folder {folder.path}: {problem}")


def _scarcity(row: NodeRow) -> Iterator[Trouble]:
    if row.load is None:
        return
    total, left = row.facts.memory_bytes, row.load.memory_available_bytes
    if total and left is not None and left < _SCARCE * total:
        yield Trouble(harm=Harm.SOON, text=f"memory is nearly full: {100 * left / total:.1f} % is left")
    waits = row.load.pressure.memory_percent if row.load.pressure is not None else None
    if waits is not None and waits >= _WAITING_PERCENT:
        yield Trouble(harm=Harm.SOON, text=f"tasks wait for memory {waits:.0f} % of the time")
