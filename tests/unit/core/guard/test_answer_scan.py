import pytest

from llmgw.core.guard.answer_scan import AnswerScan
from llmgw.core.guard.ledger import Ledger
from llmgw.core.guard.windows import OVERLAP, SIZE
from llmgw.schema.guard.coverage import Outcome
from llmgw.schema.guard.rule import Action, FailureKind, FailurePolicy, Limits, OnFailure
from llmgw.schema.guard.verdict import Verdict, VerdictState, failed, safe
from llmgw.testing.guard_policies import rule, rule_set

UNSAFE = Verdict(state=VerdictState.UNSAFE)
WORDS = "harmless words " * 200


class Scan:
    """A scan with its ledger, and questions by number."""

    def __init__(self, *rules):
        self.rules = rule_set(*rules)
        self.ledger = Ledger(self.rules, 1)
        self.scan = AnswerScan(self.rules.output, self.ledger)
        self.asks = {}

    def feed(self, text):
        self._keep(self.scan.feed(text))

    def end(self):
        self._keep(self.scan.end())

    def answer(self, number, verdict, rule=0):
        ask = self.asks[number]
        self.scan.answer(ask.window, ask.rules[rule], verdict)

    def _keep(self, asks):
        self.asks |= {ask.window.number: ask for ask in asks}


def test_without_a_rule_that_holds_everything_goes_out_at_once():
    scan = Scan(rule(action=Action.FLAG))
    scan.feed(WORDS)
    assert scan.scan.cleared == len(WORDS)
    assert len(scan.asks) == 4


def test_text_is_held_until_its_windows_are_judged():
    scan = Scan(rule())
    scan.feed(WORDS)
    assert scan.scan.cleared == 0
    scan.answer(0, safe())
    assert SIZE - OVERLAP - 100 < scan.scan.cleared == scan.asks[1].window.start
    scan.answer(2, safe())
    assert scan.scan.cleared == scan.asks[1].window.start
    scan.answer(1, safe())
    assert scan.scan.cleared == scan.asks[3].window.start


def test_the_end_goes_out_with_the_last_verdict():
    scan = Scan(rule())
    scan.feed("short")
    scan.end()
    assert (scan.scan.cleared, scan.scan.done) == (0, False)
    scan.answer(0, safe())
    assert (scan.scan.cleared, scan.scan.done) == (5, True)


def test_an_answer_without_text_is_done_at_its_end():
    scan = Scan(rule())
    scan.end()
    assert scan.scan.done
    assert not scan.asks


def test_a_block_stops_where_the_text_was_cleared():
    scan = Scan(rule())
    scan.feed(WORDS)
    scan.answer(0, safe())
    scan.answer(1, UNSAFE)
    stopped = scan.scan.cleared
    assert scan.scan.decision.outcome is Outcome.BLOCKED
    scan.answer(2, safe())
    scan.feed("more")
    scan.end()
    assert scan.scan.cleared == stopped == scan.asks[1].window.start


def test_a_block_by_a_pattern_in_an_early_window_releases_no_later_text():
    scan = Scan(rule(pattern="POISON"))
    scan.feed("a POISON " + WORDS)
    assert (scan.scan.decision.outcome, scan.scan.cleared) == (Outcome.BLOCKED, 0)


def test_a_failure_is_closed_or_open_as_the_rule_says():
    closed, opened = Scan(rule()), Scan(rule(on_failure=FailurePolicy(timeout=OnFailure.OPEN)))
    for scan in (closed, opened):
        scan.feed("text")
        scan.end()
        scan.answer(0, failed(FailureKind.TIMEOUT, "late"))
    assert (closed.scan.decision.outcome, closed.scan.cleared) == (Outcome.UNAVAILABLE, 0)
    assert (opened.scan.decision.outcome, opened.scan.cleared) == (Outcome.ALLOWED, 4)
    assert opened.ledger.coverage().scans[-1].bypassed == 1


def test_all_rules_that_hold_must_answer_and_others_need_not():
    scan = Scan(rule(name="a"), rule(name="b"), rule(name="c", action=Action.SHADOW))
    scan.feed("text")
    scan.end()
    scan.answer(0, safe(), rule=0)
    assert scan.scan.cleared == 0
    scan.answer(0, safe(), rule=1)
    assert scan.scan.cleared == 4


def test_a_second_verdict_is_ignored():
    scan = Scan(rule(), rule(name="b"))
    scan.feed("text")
    scan.end()
    scan.answer(0, safe())
    scan.answer(0, UNSAFE)
    assert not scan.scan.decision.stops


def test_places_are_redacted_and_never_cut_in_two():
    scan = Scan(rule(pattern="[0-9]{3,}", action=Action.REDACT))
    text = "x" * 590 + " " + "1234567890" * 20 + " tail " + WORDS
    for letter in text:
        scan.feed(letter)
        assert not any(edit.start < scan.scan.cleared < edit.end for edit in scan.scan.edits)
    scan.end()
    (edit,) = scan.scan.edits
    assert (edit.start, edit.end, edit.kind) == (591, 791, "[pattern]")
    assert scan.scan.decision.outcome is Outcome.REDACTED


def test_a_private_key_longer_than_a_window_is_redacted_as_a_whole():
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkq\n" * 190 + "-----END PRIVATE KEY-----"
    scan = Scan(rule(secrets="all", action=Action.REDACT))
    for start in range(0, len(WORDS + key + WORDS), 7):
        scan.feed((WORDS + key + WORDS)[start : start + 7])
        assert not len(WORDS) < scan.scan.cleared < len(WORDS) + len(key)
    scan.end()
    assert [(edit.start, edit.end) for edit in scan.scan.edits] == [(len(WORDS), len(WORDS) + len(key))]


def test_an_answer_of_a_wanted_shape_is_held_until_its_end():
    scan = Scan(rule(limits=Limits(json_schema={"type": "object"})))
    scan.feed('{"a": 1')
    assert scan.scan.cleared == 0
    scan.feed("}")
    scan.end()
    assert scan.scan.cleared == 8


def test_an_answer_of_another_shape_is_blocked():
    scan = Scan(rule(limits=Limits(json_schema={"type": "object"})))
    scan.feed("[]")
    scan.end()
    assert (scan.scan.decision.outcome, scan.scan.cleared) == (Outcome.BLOCKED, 0)


@pytest.mark.parametrize("step", [1, 13, 10_000])
def test_an_answer_that_is_too_long_is_blocked_wherever_its_chunks_end(step):
    scan = Scan(rule(limits=Limits(max_characters=1000)))
    for start in range(0, len(WORDS), step):
        scan.feed(WORDS[start : start + step])
    scan.end()
    assert scan.scan.decision.outcome is Outcome.BLOCKED
    assert scan.scan.cleared <= 1000


def test_the_ledger_counts_windows_not_chunks():
    scan = Scan(rule(pattern="POISON"))
    scan.feed(WORDS)
    scan.end()
    output = scan.ledger.coverage().scans[-1]
    assert output.texts == 5
    assert output.characters >= len(WORDS)
