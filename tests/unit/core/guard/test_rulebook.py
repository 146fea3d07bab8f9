import pytest

from llmgw.core.guard.rulebook import Caller, RuleBook
from llmgw.schema.guard.policy import Attachment, Unscannable
from llmgw.schema.guard.rule import Action, Limits, Stage
from llmgw.testing.guard_policies import policy, rule, rule_set

ME = Caller(project="research", key="lk_me", model="chat")


def names(rules):
    return [one.name for one in rules]


@pytest.mark.parametrize(
    ("attach", "applies"),
    [
        ("all", True),
        (Attachment(projects=("research",)), True),
        (Attachment(keys=("lk_me",)), True),
        (Attachment(models=("chat",)), True),
        (Attachment(projects=("sales",), keys=("lk_you",), models=("other",)), False),
        (Attachment(projects=("sales",), models=("chat",)), True),
    ],
)
def test_a_policy_applies_by_project_key_or_model(attach, applies):
    assert bool(RuleBook([policy("p", attach=attach)]).rules(ME)) is applies


def test_policies_add_up_and_larger_priority_comes_first():
    book = RuleBook(
        [
            policy("wide", rule(name="w")),
            policy("narrow", rule(name="n"), attach=Attachment(keys=("lk_me",)), priority=5),
        ]
    )
    assert names(book.rules(ME).rules) == ["narrow/n", "wide/w"]


def test_only_the_operator_exempts():
    book = RuleBook([policy("p", exempt=Attachment(projects=("research",)))])
    assert not book.rules(ME)
    assert book.rules(ME._replace(project="sales"))


def test_rules_look_at_their_stage():
    rules = rule_set(
        rule(name="in", stage=Stage.INPUT),
        rule(name="out", stage=Stage.OUTPUT),
        rule(name="both"),
        rule(name="models", allow_models=("m",)),
    )
    assert names(rules.input) == ["p/in", "p/both", "p/models"]
    assert names(rules.output) == ["p/out", "p/both"]


@pytest.mark.parametrize("action", [Action.BLOCK, Action.REDACT])
def test_rules_that_block_or_redact_hold(action):
    rules = rule_set(rule(pattern="x", action=action, stage=Stage.OUTPUT))
    assert (rules.holds_input, rules.holds_output) == (False, True)


@pytest.mark.parametrize("action", [Action.FLAG, Action.SHADOW])
def test_rules_that_only_note_hold_nothing(action):
    rules = rule_set(rule(pattern="x", action=action))
    assert (rules.holds_input, rules.holds_output) == (False, False)


def test_what_cannot_be_scanned_is_rejected_where_a_rule_blocks_unless_the_policy_says_otherwise():
    assert rule_set(rule()).unscannable is Unscannable.REJECT
    assert rule_set(rule(action=Action.FLAG)).unscannable is Unscannable.MARK
    assert RuleBook([policy("p", unscannable=Unscannable.MARK)]).rules(ME).unscannable is Unscannable.MARK
    strict = policy("q", rule(action=Action.FLAG), unscannable=Unscannable.REJECT)
    assert RuleBook([policy("p", rule(action=Action.FLAG)), strict]).rules(ME).unscannable is Unscannable.REJECT


def test_judges_are_named_with_the_policies_that_ask_them():
    book = RuleBook([policy("a", rule(judge="x"), rule(name="s", judge="y")), policy("b", rule(judge="x"))])
    asked = {judge: [one.policy.name for one in those] for judge, those in book.judges().items()}
    assert asked == {"x": ["a", "b"], "y": ["a"]}


def test_the_rules_of_a_caller_are_made_once():
    book = RuleBook([policy("p")])
    assert book.rules(ME) is book.rules(ME)


def test_a_shape_of_the_answer_needs_the_whole_of_it():
    whole, not_whole = rule_set(
        rule(name="a", limits=Limits(json_schema={})), rule(name="b", limits=Limits(max_characters=1))
    ).rules
    assert (whole.whole, not_whole.whole) == (True, False)
