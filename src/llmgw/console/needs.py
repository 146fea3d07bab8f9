"""What needs somebody: sentences in order of harm, each with what to do."""

from collections.abc import Iterator, Sequence

from llmgw.console.harm import Harm
from llmgw.core.observing import RESUME
from llmgw.schema.admin.model import ModelRow, ModelState
from llmgw.schema.admin.node import NodeRow
from llmgw.schema.guard.judge import JudgeState
from llmgw.schema.node import NodeState
from llmgw.schema.summary import AlarmKind, ControlPlaneState, Summary
from llmgw.schema.value import Value

_JUDGING = frozenset({JudgeState.UNPROVEN, JudgeState.SLOW, JudgeState.OVERLOADED})
"""States in which a judge may still give right verdicts."""


class Need(Value, frozen=True, kw_only=True):
    """One sentence."""

    id: str
    harm: Harm
    text: str
    what_to_do: str | None = None
    """A command that does something about it."""
    address: str | None = None
    """The page that tells more."""


def needs(
    models: Sequence[ModelRow],
    nodes: Sequence[NodeRow],
    *,
    summary: Summary,
    leading: bool,
    leader: str | None,
    loaded: bool,
) -> tuple[Need, ...]:
    """Give all that needs somebody, worst first; empty when nothing does."""
    if not loaded:
        return (Need(id="loading", harm=Harm.BROKEN, text="The fleet is not read from the store yet."),)
    found = (
        *_leadership(leading, leader),
        *_observing(summary),
        *_store(summary),
        *_around(summary),
        *_judges(summary),
        *_models(models),
        *_nodes(nodes),
        *_next(models, nodes),
    )
    return tuple(sorted(found, key=lambda need: list(Harm).index(need.harm)))


def _leadership(leading: bool, leader: str | None) -> Iterator[Need]:  # noqa: FBT001 - the two come from one status
    if leading:
        return
    text = f"This control plane stands by; {leader} leads." if leader else "No control plane leads: nothing can change."
    yield Need(id="leader", harm=Harm.SOON if leader else Harm.BROKEN, text=text)


def _observing(summary: Summary) -> Iterator[Need]:
    """A store that was restored: nothing is ordered."""
    for alarm in summary.alarms:
        if alarm.kind is AlarmKind.OBSERVING:
            text = f"{alarm.text[:1].upper()}{alarm.text[1:]}."
            yield Need(id="observing", harm=Harm.BROKEN, text=text, what_to_do=RESUME)


def _store(summary: Summary) -> Iterator[Need]:
    """The store: whether it answers, and what is wrong with its members; and the disk it may lie on."""
    if summary.store_error is not None:
        yield Need(id="store-error", harm=Harm.BROKEN, text=f"The store does not answer: {summary.store_error}.")
    for alarm in summary.alarms:
        if alarm.kind is AlarmKind.DISK_FULL and alarm.node is None:
            yield Need(id="disk", harm=Harm.BROKEN, text=f"{alarm.text[:1].upper()}{alarm.text[1:]}.")
    if summary.store_problem is not None:
        yield Need(id="store", harm=Harm.BROKEN, text=f"The store: {summary.store_problem}.")
    for member in summary.store:
        if member.problem is not None:
            yield Need(id=f"store-{member.name}", harm=Harm.SOON, text=f"Store {member.name}: {member.problem}.")


def _around(summary: Summary) -> Iterator[Need]:
    """What stands around the control planes: the floating address, the other control planes."""
    planes = summary.control_planes
    if planes is None:
        return
    if planes.floating_problem is not None:
        yield Need(id="floating", harm=Harm.BROKEN, text=f"The floating address {planes.floating_problem}.")
    for plane in planes.members:
        if plane.state is ControlPlaneState.NOT_ANSWERING:
            text = f"Control plane {plane.name} does not answer at {plane.address}."
            what = f"llmgw ctl server remove {plane.name}"
            yield Need(id=f"plane-{plane.name}", harm=Harm.SOON, text=f"{text} Is it gone for good?", what_to_do=what)


def _judges(summary: Summary) -> Iterator[Need]:
    """Judges that policies ask and that do not judge."""
    for judge in summary.judges:
        harm = Harm.SOON if judge.state in _JUDGING else Harm.BROKEN
        text = f"Judge {judge.text}."
        yield Need(id=f"judge-{judge.model}", harm=harm, text=text, what_to_do=judge.remedy, address="/guard")


def _models(models: Sequence[ModelRow]) -> Iterator[Need]:
    for row in models:
        harm = Harm.SOON if row.ready else Harm.BROKEN
        if row.state is ModelState.PARKED:
            text = f"{row.name} is parked after {_starts(row.failures)}: {row.reason}."
            yield Need(id=f"model-{row.name}", harm=harm, text=text, what_to_do=f"llmgw ctl model unpark {row.name}")
        elif row.state is ModelState.UNPLACEABLE:
            text = f"{row.name} has {row.ready} of {row.desired} replicas and fits nowhere: {row.reason}."
            yield Need(id=f"model-{row.name}", harm=harm, text=text, what_to_do=f"llmgw ctl model show {row.name}")
        elif row.failures and row.state is not ModelState.READY:
            text = f"{row.name} does not start ({_starts(row.failures)}): {row.reason}."
            yield Need(id=f"model-{row.name}", harm=harm, text=text, what_to_do=f"llmgw ctl model show {row.name}")


def _nodes(nodes: Sequence[NodeRow]) -> Iterator[Need]:
    for row in nodes:
        what, page = f"llmgw ctl node show {row.id}", f"/nodes/{row.id}"
        if row.state in {NodeState.UNREACHABLE, NodeState.LOST}:
            running = f", with {_count(len(row.replicas), 'replica')} on it" if row.replicas else ""
            text = f"Node {row.id} is {row.state}{running}."
            yield Need(id=f"node-{row.id}", harm=Harm.BROKEN, text=text, what_to_do=what, address=page)
        for number, problem in enumerate(row.facts.problems):
            text = f"Node {row.id}: {problem}."
            yield Need(id=f"problem-{row.id}-{number}", harm=Harm.BROKEN, text=text, what_to_do=what, address=page)
        problems = [f"device {device.index}: {device.problem}" for device in row.facts.devices if device.problem]
        if problems:
            text = f"Node {row.id} has unhealthy devices: {'; '.join(problems)}."
            yield Need(id=f"devices-{row.id}", harm=Harm.SOON, text=text, what_to_do=what, address=page)


def _next(models: Sequence[ModelRow], nodes: Sequence[NodeRow]) -> Iterator[Need]:
    if not nodes:
        yield Need(
            id="first-node",
            harm=Harm.NEXT,
            text="No node has joined yet. Start an agent on each machine that should run models.",
            what_to_do="llmgw agent --config /etc/llmgw/agent.toml",
        )
    if not models:
        yield Need(
            id="first-model",
            harm=Harm.NEXT,
            text="No model is served yet.",
            what_to_do="llmgw ctl model serve NAME --source /path/to/weights.gguf",
        )


def _starts(count: int) -> str:
    return _count(count, "failed start")


def _count(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
