"""What follows from canaries: who is left out, and what is told."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from llmgw.gateway.guard.seats import Seat, judge_report, quarantine_of
from llmgw.schema.guard.judge import CanaryReport, CanaryState, JudgeFamily

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def seat(name, *states, judge="guard"):
    made = Seat(judge, JudgeFamily.LLAMA_GUARD_3_1B, SimpleNamespace(id=name))
    for number, state in enumerate(states):
        at = NOW - timedelta(seconds=20 * (len(states) - number))
        made.heard(CanaryReport(state=state, right=0, total=8, text=f"is {state}", at=at), 0.5)
    return made


def test_a_judge_is_quarantined_when_none_of_its_replicas_is_right():
    sick = [seat("a", CanaryState.INVERTED), seat("b", CanaryState.SILENT)]
    assert quarantine_of(sick).judges == {"guard": "is inverted"}


def test_a_wrong_replica_is_left_out_while_another_is_right():
    found = quarantine_of([seat("a", CanaryState.INVERTED), seat("b", CanaryState.RIGHT)])
    assert (found.judges, found.replicas) == ({}, ("a",))


def test_silence_neither_accuses_nor_acquits():
    assert quarantine_of([seat("a", CanaryState.SILENT)]).judges == {}
    assert quarantine_of([seat("a", CanaryState.MUTE, CanaryState.SILENT)]).judges == {"guard": "is mute"}
    assert quarantine_of([seat("a", CanaryState.MUTE, CanaryState.RIGHT)]).judges == {}


def test_the_worst_replica_is_told_with_the_age_of_its_last_round():
    worst = seat("a", CanaryState.MUTE, CanaryState.SILENT)
    told = judge_report([seat("b", CanaryState.RIGHT), worst], NOW, quarantined=False)
    assert told.canaries.text == "is mute (replica a)"
    assert told.canaries_age_s == 20
    assert told.last_failure.at == NOW - timedelta(seconds=20)


def test_before_the_first_round_nothing_is_told():
    assert judge_report([seat("a")], NOW, quarantined=False).canaries is None
