"""How far enabling a judge has come, step by step."""

from enum import StrEnum

from llmgw.schema.admin.model import ModelRow, ModelState
from llmgw.schema.guard.judge import JudgeState, JudgeStatus
from llmgw.schema.model import Role
from llmgw.schema.value import Value


class Progress(StrEnum):
    """How a step stands; the words are those of the page's colours."""

    DONE = "good"
    RUNNING = "busy"
    WAITING = "quiet"
    FAILED = "bad"


class Step(Value, frozen=True, kw_only=True):
    """One step, in words."""

    id: str
    progress: Progress
    text: str


def judge_steps(model: ModelRow | None, judge: JudgeStatus | None) -> tuple[Step, ...]:
    """Give the steps. `judge` is `None` while no policy asks the model."""
    return _served(model), _ready(model), _proven(model, judge)


def _served(model: ModelRow | None) -> Step:
    if model is None:
        return Step(id="served", progress=Progress.FAILED, text="it is not in the catalog")
    if model.role is not Role.GUARD:
        return Step(id="served", progress=Progress.FAILED, text=f"it is in role {model.role}, not in role guard")
    return Step(id="served", progress=Progress.DONE, text=f"served in role guard from {model.source}")


def _ready(model: ModelRow | None) -> Step:
    if model is None:
        return Step(id="ready", progress=Progress.WAITING, text="a replica gets ready")
    if model.ready:
        return Step(id="ready", progress=Progress.DONE, text=f"{model.ready} of {model.desired} replicas ready")
    stuck = model.state in {ModelState.PARKED, ModelState.UNPLACEABLE}
    why = f": {model.reason}" if model.reason else ""
    text = f"no replica is ready, {model.state}{why}" if stuck else f"a replica gets ready{why}"
    return Step(id="ready", progress=Progress.FAILED if stuck else Progress.RUNNING, text=text)


def _proven(model: ModelRow | None, judge: JudgeStatus | None) -> Step:
    if judge is None:
        text = "no policy asks it yet: gateways try it with canaries once one does"
        return Step(id="proven", progress=Progress.WAITING, text=text)
    if judge.state is JudgeState.HEALTHY:
        return Step(id="proven", progress=Progress.DONE, text=judge.text)
    if model is None or not model.ready:
        return Step(id="proven", progress=Progress.WAITING, text="gateways try it with canaries")
    progress = Progress.RUNNING if judge.state is JudgeState.UNPROVEN else Progress.FAILED
    return Step(id="proven", progress=progress, text=judge.text)
