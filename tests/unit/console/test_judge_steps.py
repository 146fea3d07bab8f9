from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from llmgw.console.judge_steps import Progress, judge_steps
from llmgw.schema.admin.model import ModelRow, ModelState
from llmgw.schema.guard.judge import JudgeState, JudgeStatus
from llmgw.schema.model import Profile, Role

MODEL = ModelRow(
    name="guard",
    source="/w/g.gguf",
    role=Role.GUARD,
    min=1,
    max=3,
    revision=1,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    profile=Profile(),
    resolved=Profile(),
    desired=1,
    ready=0,
    state=ModelState.STARTING,
    reason="loading",
)
READY = replace(MODEL, ready=1, state=ModelState.READY, reason=None)


def judge(state, text="it says"):
    return JudgeStatus(
        model="guard", policies=("p",), in_catalog=True, is_judge=True, replicas_ready=1, state=state, text=text
    )


@pytest.mark.parametrize(
    ("model", "status", "wanted"),
    [
        (None, judge(JudgeState.ABSENT), "bad quiet quiet"),
        (replace(READY, role=Role.CHAT), judge(JudgeState.NOT_A_JUDGE), "bad good bad"),
        (MODEL, judge(JudgeState.NO_REPLICA), "good busy quiet"),
        (replace(MODEL, state=ModelState.PARKED), judge(JudgeState.NO_REPLICA), "good bad quiet"),
        (READY, None, "good good quiet"),
        (READY, judge(JudgeState.UNPROVEN), "good good busy"),
        (READY, judge(JudgeState.WRONG), "good good bad"),
        (READY, judge(JudgeState.HEALTHY), "good good good"),
    ],
)
def test_each_step_tells_how_far_it_is(model, status, wanted):
    assert " ".join(step.progress for step in judge_steps(model, status)) == wanted


def test_why_a_replica_is_not_ready_is_told():
    assert judge_steps(MODEL, None)[1].text == "a replica gets ready: loading"
    parked = replace(MODEL, state=ModelState.PARKED, reason="not GGUF")
    step = judge_steps(parked, None)[1]
    assert (step.progress, step.text) == (Progress.FAILED, "no replica is ready, parked: not GGUF")
