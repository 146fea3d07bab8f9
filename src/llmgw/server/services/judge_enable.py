"""Enabling a judge: what is missing is served, what is wrong is cured as far as it can be, and all of it is told."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from llmgw.core.guard.judge_candidates import NAMES, candidates, looked_for
from llmgw.core.guard.judge_evidence import asked_judges, found_weights
from llmgw.core.guard.judges.recognise import recognise_weights
from llmgw.core.parking import unparked
from llmgw.ports import AppendEvent, Clock, FleetRows, PutModel, PutStatus, Write
from llmgw.schema.admin.guard import EnableJudge, JudgeEnabled
from llmgw.schema.admin.model import ChangeModel, ServeModel
from llmgw.schema.errors import Conflict, InvalidInput
from llmgw.schema.event import Event, Severity
from llmgw.schema.guard.judge import JudgeFamily, JudgeState, JudgeStatus
from llmgw.schema.model import Model, ModelStatus, Role
from llmgw.server.fleet import Fleet
from llmgw.server.services import definition
from llmgw.server.services.judges import judge_statuses

MOST = 3
"""Replicas that a judge's queue may ask for unless an operator says otherwise."""


class _Plan(NamedTuple):
    """What is to be written, and told."""

    model: Model
    did: tuple[str, ...]
    status: ModelStatus | None = None


async def enable(fleet: Fleet, clock: Clock, name: str, request: EnableJudge, *, actor: str) -> JudgeEnabled:
    """Serve a judge under `name`, or cure the one that is there.

    Raises `InvalidInput` when no weights of a judge are found, `Conflict` when a model is in the way.
    """
    done: list[_Plan] = []

    def decide(rows: FleetRows) -> Sequence[Write]:
        plan = _plan(fleet, clock, rows, name, request)
        done.append(plan)
        writes: list[Write] = []
        if plan.model not in rows.models:
            writes.append(PutModel(model=plan.model))
        if plan.status is not None:
            writes.append(PutStatus(status=plan.status))
        told = f"judge {name}: {'; '.join(plan.did)}"
        event = Event(
            at=clock.now(), kind="judge.enabled", severity=Severity.INFO, message=told, model=name, actor=actor
        )
        return (*writes, AppendEvent(event=event)) if writes else ()

    await fleet.change(decide)
    plan = done[-1]
    return JudgeEnabled(model=name, source=plan.model.source, did=plan.did, judge=_status(fleet, name))


def _plan(fleet: Fleet, clock: Clock, rows: FleetRows, name: str, request: EnableJudge) -> _Plan:
    said = next((one.said for one in asked_judges(fleet.policies) if one.model == name), None)
    before = next((model for model in rows.models if model.name == name), None)
    if before is None:
        source, why = _source(rows, name, request, said)
        serve = ServeModel(name=name, source=source, role=Role.GUARD, min=1, max=MOST)
        model = definition.defined(serve, created_at=clock.now())
        return _Plan(model, (f"serves {source}{why} in role guard",), ModelStatus(model=name, revision=model.revision))
    family = said or _family(rows, before.source)
    is_judge = before.role is Role.GUARD and family is not None
    status = _status(fleet, name)
    wrong = is_judge and status is not None and status.state is JudgeState.WRONG
    elsewhere = request.source is not None and request.source != before.source
    if not request.replace and (not is_judge or elsewhere):
        raise _in_the_way(before, family, is_judge=is_judge)
    if request.replace and (not is_judge or wrong or elsewhere):
        return _replaced(rows, before, request, said, wrong=wrong)
    return _cured(rows, before, status)


def _replaced(rows: FleetRows, before: Model, request: EnableJudge, said: JudgeFamily | None, *, wrong: bool) -> _Plan:
    keeps = request.source is None and not wrong and (said or _family(rows, before.source)) is not None
    source, why = (
        (before.source, "") if keeps else _source(rows, before.name, request, said, besides=before, wrong=wrong)
    )
    template = {"chat_template": None} if before.profile.chat_template is not None else None
    change = ChangeModel(
        source=source, role=Role.GUARD, min=max(before.min, 1), max=max(before.max, MOST), profile=template
    )
    after = definition.changed(before, change)
    did = []
    if before.source != source:
        did.append(f"replaces {before.source} by {source}{why}")
    if before.role is not Role.GUARD:
        did.append(f"takes the model from role {before.role} to role guard")
    if template is not None:
        did.append("drops its chat template: judges are asked without one")
    if after == before:
        raise Conflict(
            f"{before.name} is served from {source} already, and no other weights of a judge are known",
            hint="name other weights with --source",
            field="source",
        )
    return _Plan(after, tuple(did), ModelStatus(model=before.name, revision=after.revision))


def _cured(rows: FleetRows, before: Model, status: JudgeStatus | None) -> _Plan:
    """Do for a judge that is in place what can be done without replacing it."""
    did: list[str] = []
    after, known = before, next((one for one in rows.statuses if one.model == before.name), None)
    if before.min < 1:
        after = replace(before, min=1)
        did.append("wants one replica at least")
    tried = unparked(known) if known is not None else None
    if tried is not None and tried != known:
        did.append("is tried again")
    if not did:
        told = "nothing to do: it is healthy" if status is None or status.problem is None else "nothing was done"
        why = f": {status.problem}" if status is not None and status.problem else ""
        cure = f"; try {status.remedy}" if why and status is not None and status.remedy else ""
        return _Plan(before, (f"{told}{why}{cure}",))
    return _Plan(after, tuple(did), tried if tried != known else None)


def _source(
    rows: FleetRows,
    name: str,
    request: EnableJudge,
    said: JudgeFamily | None,
    *,
    besides: Model | None = None,
    wrong: bool = False,
) -> tuple[str, str]:
    """Choose the weights, and say in words what they are."""
    if request.source is not None:
        family = said or _family(rows, request.source)
        if family is None:
            raise InvalidInput(
                f"{request.source} is not recognised as a judge's weights, and no policy says which family it is",
                hint="name weights of Llama Guard 3 or Qwen3Guard-Gen, or say family in the rule that asks it",
                field="source",
            )
        return request.source, f" ({NAMES[family]})"
    wanted = None if said is JudgeFamily.PROMPTED else said
    found = [one for one in candidates(rows.nodes, wanted) if not (wrong and besides and one.source == besides.source)]
    if said is JudgeFamily.PROMPTED or not found:
        told = (
            f"policies say that {name} is a chat model that is told what is not allowed, and any could be it"
            if said is JudgeFamily.PROMPTED
            else f"no node has weights of a judge: {looked_for(rows.nodes, wanted)}"
        )
        raise InvalidInput(
            told,
            hint="put a GGUF file such as Llama-Guard-3-1B-Q8_0.gguf into a weights folder of a node, or name weights"
            f" that nodes have: llmgw ctl guard judge enable {name} --source PATH",
            field="source",
        )
    best = found[0]
    return best.source, f" ({NAMES[best.family]}, found on {', '.join(best.nodes[:3])})"


def _in_the_way(before: Model, family: JudgeFamily | None, *, is_judge: bool) -> Conflict:
    if before.role is not Role.GUARD:
        told = f"{before.name} is a model in role {before.role}, served from {before.source}"
    elif family is None:
        told = f"{before.name} is in role guard, but {before.source} is not recognised as a judge's weights"
    else:
        told = f"{before.name} is a judge already, served from {before.source}"
    hint = "with --replace the other weights are served instead"
    if not is_judge:
        hint = "with --replace it becomes a judge, and answers no other requests"
    return Conflict(told, hint=hint, field="replace")


def _family(rows: FleetRows, source: str) -> JudgeFamily | None:
    return recognise_weights(source, found_weights(rows.nodes, {source}).get(source)).family


def _status(fleet: Fleet, name: str) -> JudgeStatus | None:
    return next((one for one in judge_statuses(fleet) if one.model == name), None)
