import pytest

from llmgw.core.guard.decide import Decision, Effect, Finding, decide, effect, joined
from llmgw.schema.guard.coverage import Outcome
from llmgw.schema.guard.rule import Action, FailureKind, FailurePolicy, OnFailure
from llmgw.schema.guard.verdict import Verdict, VerdictState, failed, safe
from llmgw.testing.guard_policies import bound, rule

UNSAFE = Verdict(state=VerdictState.UNSAFE)


@pytest.mark.parametrize("failure", FailureKind)
@pytest.mark.parametrize(
    ("action", "does"),
    [
        (Action.BLOCK, Effect.REFUSE),
        (Action.REDACT, Effect.REFUSE),
        (Action.FLAG, Effect.BYPASS),
        (Action.SHADOW, Effect.BYPASS),
    ],
)
def test_rules_that_block_fail_closed_and_others_open_where_nothing_is_said(failure, action, does):
    assert effect(rule(pattern="x", action=action), failed(failure, "")) is does


@pytest.mark.parametrize("failure", FailureKind)
def test_each_kind_of_failure_has_a_choice_of_its_own(failure):
    opened = rule(on_failure=FailurePolicy(**{failure.value: OnFailure.OPEN}))
    for other in FailureKind:
        expected = Effect.BYPASS if other is failure else Effect.REFUSE
        assert effect(opened, failed(other, "")) is expected


def test_an_error_that_names_no_kind_is_closed():
    opened = rule(on_failure=FailurePolicy(**{kind.value: OnFailure.OPEN for kind in FailureKind}))
    assert effect(opened, Verdict(state=VerdictState.ERROR)) is Effect.REFUSE


def test_the_strongest_effect_wins():
    block, flag, shadow = bound(name="b"), bound(name="f", action=Action.FLAG), bound(name="s", action=Action.SHADOW)
    assert decide([]).outcome is Outcome.ALLOWED
    assert decide([Finding(shadow, UNSAFE), Finding(block, safe())]).outcome is Outcome.ALLOWED
    assert decide([Finding(flag, UNSAFE), Finding(block, safe())]).outcome is Outcome.FLAGGED
    assert decide([Finding(flag, UNSAFE), Finding(block, UNSAFE)]).outcome is Outcome.BLOCKED
    assert decide([Finding(block, failed(FailureKind.TIMEOUT, ""))]).outcome is Outcome.UNAVAILABLE


def test_a_block_by_a_verdict_is_told_before_a_refusal_for_want_of_one():
    block, late = bound(name="b"), bound(name="late")
    decision = decide([Finding(late, failed(FailureKind.TIMEOUT, "")), Finding(block, UNSAFE)])
    assert decision.outcome is Outcome.BLOCKED
    assert [finding.bound.name for finding in decision.by] == ["p/b"]
    assert decision.stops


def test_findings_are_joined_one_by_one_and_a_rule_counts_once():
    flag, block = bound(name="f", action=Action.FLAG), bound(name="b")
    decision = Decision(Outcome.ALLOWED)
    for finding in (Finding(flag, safe()), Finding(flag, UNSAFE), Finding(flag, UNSAFE), Finding(block, UNSAFE)):
        decision = joined(decision, finding)
    assert (decision.outcome, [one.bound.name for one in decision.by]) == (Outcome.BLOCKED, ["p/b"])
    shadow = Finding(bound(action=Action.SHADOW), UNSAFE)
    assert joined(Decision(Outcome.ALLOWED), shadow) == Decision(Outcome.ALLOWED)
