from llmgw.core.guard.input_scan import InputScan
from llmgw.core.guard.ledger import Ledger, bypasses
from llmgw.core.guard.openai_turns import chat_conversation
from llmgw.core.guard.rulebook import RuleBook
from llmgw.schema.guard.coverage import Outcome, Why
from llmgw.schema.guard.policy import Unscannable
from llmgw.schema.guard.rule import Action, FailureKind, FailurePolicy, Limits, OnFailure, Stage
from llmgw.schema.guard.verdict import Verdict, VerdictState, failed, safe
from llmgw.testing.guard_policies import ANYBODY, policy, rule, rule_set

UNSAFE = Verdict(state=VerdictState.UNSAFE)
PICTURE = {"type": "image_url", "image_url": {"url": "data:"}}


class Scan:
    """The scan of a request of one message."""

    def __init__(self, *rules, content="hello", model="chat", of=None):
        self.rules = of or rule_set(*rules)
        self.ledger = Ledger(self.rules, 1)
        conversation = chat_conversation({"messages": [{"role": "user", "content": content}], "tools": [{"n": "x"}]})
        self.scan = InputScan(self.rules, conversation, (model,), self.ledger)
        self.questions = self.scan.questions(lambda court: 4000)

    def answer(self, verdict, question=0):
        for one in self.questions[question].rules:
            self.scan.answer(self.questions[question], one, verdict)

    @property
    def outcome(self):
        assert self.ledger.coverage().outcome is self.scan.decision.outcome
        return self.scan.decision.outcome


def test_rules_without_a_judge_have_answered_at_once():
    assert Scan(rule(pattern="hello")).outcome is Outcome.BLOCKED
    assert Scan(rule(pattern="bye")).outcome is Outcome.ALLOWED
    assert Scan(rule(allow_models=("other",))).outcome is Outcome.BLOCKED
    assert Scan(rule(limits=Limits(max_tools=0))).outcome is Outcome.BLOCKED


def test_rules_of_the_output_do_not_look_at_requests():
    scan = Scan(rule(pattern="hello", stage=Stage.OUTPUT), rule(name="j", stage=Stage.OUTPUT))
    assert (scan.outcome, scan.questions) == (Outcome.ALLOWED, [])


def test_a_request_waits_for_judges_of_rules_that_hold_only():
    holding, noting = Scan(rule()), Scan(rule(action=Action.FLAG))
    assert (holding.scan.waits, noting.scan.waits) == (True, False)
    holding.answer(safe())
    assert not holding.scan.waits


def test_a_judges_verdict_decides():
    scan = Scan(rule())
    scan.answer(UNSAFE)
    assert scan.outcome is Outcome.BLOCKED


def test_failures_follow_the_rule_and_are_counted():
    scan = Scan(rule(), rule(name="open", on_failure=FailurePolicy(timeout=OnFailure.OPEN)))
    scan.answer(failed(FailureKind.TIMEOUT, ""))
    assert scan.outcome is Outcome.UNAVAILABLE
    assert bypasses(scan.ledger.coverage()) == 1


def test_rules_that_ask_the_same_share_one_answer():
    scan = Scan(
        rule(name="a"), rule(name="b", threshold=0.9), rule(name="c", judge="other"), rule(name="d", guideline="x")
    )
    asked = [[one.rule.name for one in question.rules] for question in scan.questions]
    assert sorted(asked) == [["a", "b"], ["c"], ["d"]]


def test_a_second_verdict_is_ignored():
    scan = Scan(rule())
    scan.answer(safe())
    scan.answer(UNSAFE)
    assert scan.outcome is Outcome.ALLOWED


def test_a_rule_that_redacts_says_so():
    scan = Scan(rule(pattern="hello", action=Action.REDACT))
    assert scan.outcome is Outcome.REDACTED
    assert [one.rule.name for one in scan.scan.redacting] == ["r"]


def test_parts_that_cannot_be_scanned_are_rejected_or_marked_as_the_policy_says():
    content = [{"type": "text", "text": "look"}, PICTURE]
    strict = Scan(rule(), content=content)
    assert (strict.outcome, [one.where for one in strict.scan.rejected]) == (
        Outcome.BLOCKED,
        ["messages[0].content[1]"],
    )
    marking = RuleBook([policy("p", rule(), unscannable=Unscannable.MARK)]).rules(ANYBODY)
    lax = Scan(content=content, of=marking)
    assert (lax.outcome, lax.scan.rejected) == (Outcome.ALLOWED, ())
    assert next(one.why for one in lax.ledger.coverage().unscanned) is Why.IMAGE


def test_a_rejected_part_is_not_forgotten_for_a_weaker_finding():
    scan = Scan(rule(), rule(name="f", action=Action.FLAG, judge="other"), content=[PICTURE])
    assert scan.outcome is Outcome.BLOCKED


def test_a_rule_about_models_needs_no_text():
    assert Scan(rule(allow_models=("chat",)), content=[PICTURE]).outcome is Outcome.ALLOWED


def test_what_no_judge_is_shown_is_rejected_or_marked_too():
    content = "x" * 400_000
    scan = Scan(rule(), content=content)
    assert scan.outcome is Outcome.BLOCKED
    assert [one.why for one in scan.scan.rejected] == [Why.TOO_LONG]


def test_a_picture_alone_leaves_nothing_unmarked():
    scan = Scan(rule(action=Action.FLAG), content=[PICTURE])
    coverage = scan.ledger.coverage()
    assert [one.why for one in coverage.unscanned] == [Why.IMAGE, Why.CUT_OFF]
