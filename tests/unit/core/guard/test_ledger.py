from llmgw.core.guard.decide import Finding, decide
from llmgw.core.guard.ledger import Ledger, bypasses, complete, header
from llmgw.schema.guard.category import Category
from llmgw.schema.guard.coverage import Outcome, Unscanned, Why
from llmgw.schema.guard.rule import Action, FailureKind, Stage
from llmgw.schema.guard.verdict import Verdict, VerdictState, failed, safe
from llmgw.testing.guard_policies import rule, rule_set

RULES = rule_set(rule(name="b", stage=Stage.INPUT), rule(name="f", action=Action.FLAG, stage=Stage.INPUT))
BLOCK, FLAG = RULES.rules


def test_every_rule_that_applies_has_a_line_even_when_there_was_nothing_to_scan():
    coverage = Ledger(RULES, 7).coverage()
    assert [(scan.rule, scan.texts, scan.characters) for scan in coverage.scans] == [("b", 0, 0), ("f", 0, 0)]
    assert coverage.version == 7
    assert complete(coverage)


def test_verdicts_add_up_the_worst_stays():
    ledger = Ledger(RULES, 1)
    ledger.due(BLOCK, Stage.INPUT, 3)
    unsafe = Verdict(state=VerdictState.UNSAFE, score=0.9, categories=(Category.HATE,), codes=("S10",))
    ledger.add(BLOCK, Stage.INPUT, safe(score=0.1), characters=10, milliseconds=4)
    ledger.add(BLOCK, Stage.INPUT, unsafe, characters=20, milliseconds=2, judge_version="v")
    ledger.add(BLOCK, Stage.INPUT, failed(FailureKind.TIMEOUT, ""), characters=30)
    scan = ledger.coverage().scans[0]
    assert (scan.state, scan.texts, scan.characters, scan.failures) == (VerdictState.UNSAFE, 3, 30, 1)
    assert (scan.score, scan.codes, scan.milliseconds, scan.judge_version) == (0.9, ("S10",), 4, "v")


def test_what_passes_without_a_verdict_is_a_bypass_and_never_a_scan():
    ledger = Ledger(RULES, 1)
    ledger.due(FLAG, Stage.INPUT)
    ledger.add(FLAG, Stage.INPUT, failed(FailureKind.UNREACHABLE, ""), characters=30)
    coverage = ledger.coverage()
    assert bypasses(coverage) == 1
    assert (coverage.scans[1].state, coverage.scans[1].characters) == (VerdictState.ERROR, 0)
    assert not complete(coverage)


def test_a_rule_that_fails_closed_bypasses_nothing():
    ledger = Ledger(RULES, 1)
    ledger.due(BLOCK, Stage.INPUT)
    ledger.add(BLOCK, Stage.INPUT, failed(FailureKind.UNREACHABLE, ""), characters=30)
    assert bypasses(ledger.coverage()) == 0


def test_what_was_due_and_never_answered_was_cut_off():
    ledger = Ledger(RULES, 1)
    ledger.due(BLOCK, Stage.INPUT, 2)
    ledger.add(BLOCK, Stage.INPUT, safe(), characters=1)
    (missing,) = ledger.coverage().unscanned
    assert (missing.why, missing.rule, missing.where) == (Why.CUT_OFF, "b", "1 text")


def test_the_strongest_decision_stays():
    ledger = Ledger(RULES, 1)
    unsafe = Verdict(state=VerdictState.UNSAFE)
    ledger.decided(decide([Finding(BLOCK, unsafe)]))
    ledger.decided(decide([Finding(FLAG, unsafe)]))
    coverage = ledger.coverage()
    assert (coverage.outcome, coverage.by) == (Outcome.BLOCKED, ("p/b",))


def test_the_header_is_numbers_and_names():
    ledger = Ledger(RULES, 3)
    ledger.due(FLAG, Stage.INPUT)
    ledger.add(FLAG, Stage.INPUT, failed(FailureKind.TIMEOUT, "secret"), characters=5)
    ledger.missed([Unscanned(stage=Stage.INPUT, where="messages[0].content[1]", why=Why.IMAGE)])
    assert header(ledger.coverage()) == "allowed; rules=2; texts=0; failed=1; bypassed=1; unscanned=1; version=3"


def test_what_is_still_to_be_seen_is_pending_while_it_may_be_and_unscanned_after_that():
    ledger = Ledger(RULES, None)
    ledger.due(FLAG, Stage.INPUT, 2)
    told = header(ledger.coverage(over=False), pending=ledger.pending)
    assert told == "allowed; rules=2; texts=0; failed=0; bypassed=0; unscanned=0; pending=2"
    assert [part.why for part in ledger.coverage().unscanned] == [Why.CUT_OFF]
