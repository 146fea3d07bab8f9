"""Zero unsafe characters go out under a blocking output rule, and the verdict does not depend on chunks or their time.

The judge of these tests calls a window unsafe when it holds the word, as the hand-made one does.
"""

from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.guard.answer_scan import AnswerScan
from llmgw.core.guard.ledger import Ledger
from llmgw.core.guard.windows import OVERLAP
from llmgw.schema.guard.coverage import Outcome
from llmgw.schema.guard.rule import Action
from llmgw.schema.guard.verdict import Verdict, VerdictState, safe
from llmgw.testing.guard_policies import rule, rule_set

POISON = "POISON"
UNSAFE = Verdict(state=VerdictState.UNSAFE)
FILL = st.sampled_from(["harmless ", "x", "\n", "é😀 ", "word " * 30, "y" * 300])
TEXTS = st.lists(FILL | st.just(POISON), max_size=40).map("".join)
CUTS = st.lists(st.integers(1, 400), min_size=1, max_size=20)


def judge(window):
    return UNSAFE if POISON in window.text else safe()


def chunks(text, cuts):
    at, turn = 0, 0
    while at < len(text):
        yield text[at : at + cuts[turn % len(cuts)]]
        at += cuts[turn % len(cuts)]
        turn += 1


def run(rules, pieces, patience):
    """Feed all pieces; questions are answered `patience` pieces later, the newest first."""
    ledger = Ledger(rules, 1)
    scan = AnswerScan(rules.output, ledger)
    asked, cleared = [], [0]

    def answer(count):
        while len(asked) > count:
            ask = asked.pop()
            for one in ask.rules:
                scan.answer(ask.window, one, judge(ask.window))
            cleared.append(scan.cleared)

    for piece in pieces:
        asked += scan.feed(piece)
        cleared.append(scan.cleared)
        answer(patience)
    asked += scan.end()
    answer(0)
    assert cleared == sorted(cleared), "what went out cannot come back"
    return scan, ledger


@given(TEXTS, CUTS, st.integers(0, 5), st.booleans())
def test_no_unsafe_character_goes_out_and_the_verdict_is_that_of_the_plain_answer(text, cuts, patience, by_judge):
    rules = rule_set(rule() if by_judge else rule(pattern=POISON))
    scan, _ = run(rules, chunks(text, cuts), patience)
    plain, _ = run(rules, [text], 0)
    assert scan.decision.outcome is plain.decision.outcome
    assert scan.decision.outcome is (Outcome.BLOCKED if POISON in text else Outcome.ALLOWED)
    out = text[: scan.cleared]
    assert POISON not in out
    if POISON in text:
        assert not any(
            out.endswith(POISON[:length]) and text.startswith(POISON, len(out) - length) for length in (3, 5)
        )
    else:
        assert out == text


@given(TEXTS, CUTS)
def test_redaction_is_the_same_for_any_chunks(text, cuts):
    rules = rule_set(rule(pattern=POISON, action=Action.REDACT))
    scan, _ = run(rules, chunks(text, cuts), 0)
    plain, _ = run(rules, [text], 0)
    assert scan.edits == plain.edits
    assert scan.cleared == len(text)
    assert len(scan.edits) == text.count(POISON)
    assert len(POISON) <= OVERLAP


@given(TEXTS, CUTS, st.integers(0, 5))
def test_the_ledger_tells_the_same_for_any_chunks_of_a_text_that_passes(text, cuts, patience):
    text = text.replace(POISON, "fine")
    rules = rule_set(rule(), rule(name="s", action=Action.SHADOW, pattern="harmless"))
    _, ledger = run(rules, chunks(text, cuts), patience)
    _, plain = run(rules, [text], 0)
    assert ledger.coverage() == plain.coverage()
