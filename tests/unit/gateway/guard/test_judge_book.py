"""How judges do: counted by workers, added up by the master."""

from datetime import UTC, datetime

from llmgw.core.guard.judges.adapter import Label, Reading, Unclear
from llmgw.core.guard.judges.reply import JudgeReply, NoAnswer
from llmgw.gateway.guard.judge_book import JudgeBook, total_judges
from llmgw.schema.demand import JudgeReport
from llmgw.schema.guard.judge import CanaryReport, CanaryState, JudgeFailure
from llmgw.schema.guard.rule import FailureKind


def test_answers_and_failures_are_told_apart():
    book = JudgeBook(lambda _judge: 3)
    book.heard("guard", JudgeReply(Reading(Label.SAFE), 0.1))
    book.heard("guard", JudgeReply(Unclear("its answer is no verdict"), 0.1))
    book.heard("guard", JudgeReply(NoAnswer(FailureKind.TIMEOUT, "it did not answer"), 9.0))
    told = book.reports()["guard"]
    assert (told.answers, told.waiting) == (1, 3)
    assert told.failures == {FailureKind.UNCLEAR: 1, FailureKind.TIMEOUT: 1}
    assert told.last_failure.text == "timeout: it did not answer"
    assert 0.1 <= told.slowest_s < 0.15


def test_reports_add_up_and_the_canaries_of_the_master_stay():
    early, late = (JudgeFailure(at=datetime(2026, 1, day, tzinfo=UTC), text=str(day)) for day in (1, 2))
    canaries = CanaryReport(state=CanaryState.RIGHT, right=8, total=8, text="right")
    total = total_judges(
        [
            {"guard": JudgeReport(canaries=canaries, canaries_age_s=1.0, canary_s=0.2)},
            {"guard": JudgeReport(answers=2, last_failure=late, failures={FailureKind.TIMEOUT: 1}, waiting=1)},
            {"guard": JudgeReport(answers=3, last_failure=early, failures={FailureKind.TIMEOUT: 2}, slowest_s=0.5)},
        ]
    )["guard"]
    assert (total.answers, total.waiting, total.slowest_s) == (5, 1, 0.5)
    assert total.failures == {FailureKind.TIMEOUT: 3}
    assert total.last_failure is late
    assert (total.canaries, total.canaries_age_s, total.canary_s) == (canaries, 1.0, 0.2)
