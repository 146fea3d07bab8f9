import pytest

from llmgw.core.guard.decide import Finding, decide
from llmgw.core.guard.refusal import refusal
from llmgw.schema.guard.category import Category
from llmgw.schema.guard.coverage import Unscanned, Why
from llmgw.schema.guard.rule import FailureKind, Stage
from llmgw.schema.guard.verdict import Verdict, VerdictState, failed
from llmgw.testing.guard_policies import bound

UNSAFE = Verdict(state=VerdictState.UNSAFE, categories=(Category.HATE,), codes=("S10",), detail="what was said")


def test_a_block_is_a_clients_error_that_names_rule_and_category_and_never_the_text():
    told = refusal(decide([Finding(bound(), UNSAFE)]))
    assert (told.status, told.kind, told.code) == (400, "invalid_request_error", "content_policy_violation")
    assert told.message == "the content is not allowed here: blocked by guardrail p/r (hate)"
    assert not told.again
    assert "said" not in told.message


@pytest.mark.parametrize(
    ("failure", "again"),
    [
        (FailureKind.OVERLOADED, True),
        (FailureKind.TIMEOUT, True),
        (FailureKind.UNREACHABLE, False),
        (FailureKind.UNCLEAR, False),
        (FailureKind.MISCONFIGURED, False),
    ],
)
def test_a_judge_that_does_not_answer_is_the_servers_error_and_only_a_busy_one_is_worth_another_try(failure, again):
    told = refusal(decide([Finding(bound(), failed(failure, "x"))]))
    assert (told.status, told.code, told.again) == (503, "guard_unavailable", again)
    assert (told.retry_after_s is None) is not again
    assert (told.retry_after_s or 0) <= 60


def test_parts_that_cannot_be_checked_are_named():
    parts = [Unscanned(stage=Stage.INPUT, where=f"messages[{index}].content[1]", why=Why.IMAGE) for index in range(3)]
    told = refusal(decide([]), parts)
    assert (told.status, told.code, told.param) == (400, "unscannable_content", "messages[0].content[1]")
    assert told.message == (
        "messages[0].content[1] and 2 more cannot be checked (image), and a guardrail wants it checked"
    )
