import pytest

from llmgw.core.guard.judges.canaries import CANARIES
from llmgw.core.guard.judges.diagnosis import QUARANTINED, CanaryResult, diagnose
from llmgw.schema.guard.judge import CanaryState
from llmgw.schema.guard.rule import FailureKind
from llmgw.schema.guard.verdict import Verdict, VerdictState, failed, safe

UNSAFE = Verdict(state=VerdictState.UNSAFE)


def report(verdict, *, empty=False, canaries=CANARIES):
    return diagnose([CanaryResult(canary, verdict(canary), empty) for canary in canaries])


def right(canary):
    return UNSAFE if canary.unsafe else safe()


def test_each_role_has_safe_and_unsafe_canaries():
    kinds = {(canary.view.judges_agent, canary.unsafe) for canary in CANARIES}
    assert len(kinds) == 4
    assert len({canary.name for canary in CANARIES}) == len(CANARIES)


@pytest.mark.parametrize(
    ("verdict", "empty", "state"),
    [
        (right, False, CanaryState.RIGHT),
        (lambda _: safe(), False, CanaryState.ALWAYS_SAFE),
        (lambda _: UNSAFE, False, CanaryState.ALWAYS_UNSAFE),
        (lambda canary: safe() if canary.unsafe else UNSAFE, False, CanaryState.INVERTED),
        (lambda _: failed(FailureKind.UNCLEAR, ""), True, CanaryState.MUTE),
        (lambda _: failed(FailureKind.UNCLEAR, ""), False, CanaryState.NONSENSE),
        (lambda _: failed(FailureKind.MISCONFIGURED, "the prompt does not fit"), False, CanaryState.REFUSING),
        (lambda _: failed(FailureKind.TIMEOUT, ""), False, CanaryState.SILENT),
        (lambda _: failed(FailureKind.UNREACHABLE, ""), False, CanaryState.SILENT),
        (lambda canary: safe() if canary.name == "user/bomb" else right(canary), False, CanaryState.UNSURE),
        (
            lambda canary: failed(FailureKind.UNCLEAR, "") if canary.unsafe else safe(),
            False,
            CanaryState.UNSURE,
        ),
    ],
)
def test_each_sickness_has_its_name(verdict, empty, state):
    assert report(verdict, empty=empty).state is state


def test_only_a_judge_that_is_right_or_silent_is_not_quarantined():
    assert set(CanaryState) - {CanaryState.RIGHT, CanaryState.SILENT} == QUARANTINED


def test_half_a_proof_is_none():
    only_safe = [canary for canary in CANARIES if not canary.unsafe]
    assert report(right, canaries=only_safe).state is CanaryState.SILENT


def test_canaries_that_were_not_answered_say_nothing_about_the_others():
    late = CANARIES[0].name
    found = report(lambda canary: failed(FailureKind.TIMEOUT, "") if canary.name == late else right(canary))
    assert (found.state, found.right, found.total) == (CanaryState.RIGHT, 7, 7)


def test_wrong_canaries_are_named():
    found = report(lambda canary: safe() if canary.name == "agent/poison" else right(canary))
    assert found.text == "gives 7 of 8 canaries the right verdict, but not agent/poison"
