from llmgw.core.guard.scanner import scanner, verdict
from llmgw.schema.guard.rule import Action, FailureKind, Limits, Rule
from llmgw.schema.guard.verdict import VerdictState


def judged(text, **rule):
    made = Rule(**{"name": "r", "action": Action.BLOCK} | rule)
    return verdict(made, scanner(made), text)


def test_one_or_several_patterns_are_looked_for():
    assert judged("project x", pattern="project x").state is VerdictState.UNSAFE
    assert judged("b", pattern=("a", "b")).codes == ("pattern",)
    assert judged("c", pattern=("a", "b")).state is VerdictState.SAFE


def test_a_rule_that_redacts_knows_all_places_and_one_that_blocks_the_first():
    assert len(judged("a a a", pattern="a", action=Action.REDACT).spans) == 3
    assert len(judged("a a a", pattern="a").spans) == 1


def test_secrets_and_personal_data_name_their_kinds_never_the_text():
    found = judged("mail me@example.org", personal_data="all", action=Action.REDACT)
    assert found.codes == ("email",)
    assert "example" not in repr(found)
    assert judged("AKIA" + "IOSFODNN7EXAMPLE", secrets="all").codes == ("aws_key",)


def test_a_pattern_that_cannot_be_used_is_an_error_never_safe():
    assert judged("a", pattern="(").failure is FailureKind.MISCONFIGURED


def test_other_rules_have_no_scanner():
    assert scanner(Rule(name="r", action=Action.BLOCK, limits=Limits())) is None
    assert scanner(Rule(name="r", action=Action.BLOCK, judge="j")) is None
