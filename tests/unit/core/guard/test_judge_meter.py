import pytest

from llmgw.core.guard.judge_meter import JudgeMeter, added
from llmgw.core.guard.judge_status import JudgeTraffic
from llmgw.core.guard.judges.adapter import Label, Reading, Unclear
from llmgw.core.guard.judges.reply import JudgeReply, NoAnswer
from llmgw.schema.guard.rule import FailureKind


def answer(seconds):
    return JudgeReply(Reading(Label.SAFE), seconds)


LATE = JudgeReply(NoAnswer(FailureKind.TIMEOUT, ""), 5.0)


def test_nothing_heard_is_no_traffic():
    assert JudgeMeter().traffic(100.0) == JudgeTraffic()


def test_answers_and_failures_are_counted_by_their_kind():
    meter = JudgeMeter()
    for reply in (answer(0.1), answer(0.1), answer(3.0), LATE, JudgeReply(Unclear(""), 0.1)):
        meter.heard(reply, 100.0)
    traffic = meter.traffic(101.0)
    assert traffic.answered == 3
    assert traffic.failures == {FailureKind.TIMEOUT: 1, FailureKind.UNCLEAR: 1}
    assert traffic.median_s == pytest.approx(0.1, rel=0.3)


def test_what_is_older_than_a_minute_is_forgotten():
    meter = JudgeMeter()
    meter.heard(LATE, 100.0)
    assert meter.traffic(150.0).failures
    assert meter.traffic(170.0) == JudgeTraffic()
    meter.heard(answer(0.1), 400.0)
    assert meter.traffic(400.0).failures == {}


def test_gateways_are_added_up_and_the_slowest_counts():
    one = JudgeTraffic(answered=2, failures={FailureKind.TIMEOUT: 1}, median_s=0.2)
    other = JudgeTraffic(answered=3, failures={FailureKind.TIMEOUT: 2, FailureKind.OVERLOADED: 1}, median_s=4.0)
    assert added([one, other, JudgeTraffic()]) == JudgeTraffic(
        answered=5, failures={FailureKind.TIMEOUT: 3, FailureKind.OVERLOADED: 1}, median_s=4.0
    )
