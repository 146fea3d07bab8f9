import pytest
from msgspec.structs import replace

from llmgw.core.guard.check import checked, checked_policy
from llmgw.schema.errors import InvalidInput
from llmgw.schema.guard.category import Category
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.guard.policy import Attachment, Policy, PolicyFile
from llmgw.schema.guard.rule import Action, Controversial, FailurePolicy, Limits, OnFailure, Rule, SecretKind, Stage
from llmgw.testing.guard_policies import rule


def refused(given):
    with pytest.raises(InvalidInput) as caught:
        checked_policy(Policy(name="p", attach="all", rules=(given,)))
    return caught.value


def test_a_policy_with_every_kind_of_rule_passes():
    rules = (
        rule(name="a", pattern=("x", "(?i)y")),
        rule(name="b", secrets="all", action=Action.REDACT, replacement="***"),
        rule(name="c", personal_data="all", regions=("DE",), action=Action.REDACT),
        rule(name="d", limits=Limits(max_characters=100, json_schema={"type": "object"})),
        rule(name="e", allow_models=("m",)),
        rule(name="f", judge="g", threshold=0.9, exclude=(Category.DEFAMATION,), family=JudgeFamily.LLAMA_GUARD_3_1B),
        rule(name="g", judge="h", guideline="no jokes", action=Action.SHADOW, stage=Stage.OUTPUT),
    )
    policy = Policy(name="p", attach=Attachment(projects=("x",)), rules=rules)
    assert checked(PolicyFile(policies=(policy,))).policies == (policy,)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "a b", "pattern": "x"}, "rules[0].name"),
        ({"pattern": "x", "judge": "g"}, "rules[0].judge"),
        ({"pattern": "("}, "rules[0].pattern"),
        ({"pattern": ()}, "rules[0].pattern"),
        ({"pattern": "x" * 3000}, "rules[0].pattern"),
        ({"secrets": ()}, "rules[0].secrets"),
        ({"allow_models": ()}, "rules[0].allow_models"),
        ({"limits": Limits()}, "rules[0].limits"),
        ({"limits": Limits(max_tools=-1)}, "rules[0].limits.max_tools"),
        ({"limits": Limits(json_schema={"pattern": "x"})}, "rules[0].limits.json_schema.pattern"),
        ({"limits": Limits(json_schema={}), "stage": Stage.INPUT}, "rules[0].stage"),
        ({"limits": Limits(max_messages=1), "stage": Stage.OUTPUT}, "rules[0].stage"),
        ({"allow_models": ("m",), "stage": Stage.OUTPUT}, "rules[0].stage"),
        ({"judge": "g", "action": Action.REDACT}, "rules[0].action"),
        ({"judge": "g", "threshold": 1.0}, "rules[0].threshold"),
        ({"judge": "g", "timeout_s": 0.0}, "rules[0].timeout_s"),
        ({"judge": "g", "timeout_s": float("nan")}, "rules[0].timeout_s"),
        ({"judge": ""}, "rules[0].judge"),
        ({"judge": "g", "exclude": tuple(Category)}, "rules[0].exclude"),
        ({"judge": "g", "guideline": " "}, "rules[0].guideline"),
        ({"judge": "g", "guideline": "x", "family": JudgeFamily.QWEN3_GUARD_GEN}, "rules[0].guideline"),
        ({"judge": "g", "regions": ("DE",)}, "rules[0].regions"),
        ({"personal_data": "all", "regions": ("XX",)}, "rules[0].regions"),
        ({"pattern": "x", "threshold": 0.9}, "rules[0].threshold"),
        ({"pattern": "x", "exclude": (Category.HATE,)}, "rules[0].exclude"),
        ({"pattern": "x", "controversial": Controversial.SAFE}, "rules[0].controversial"),
        ({"secrets": (SecretKind.JWT,), "family": JudgeFamily.PROMPTED}, "rules[0].family"),
        ({"pattern": "x", "replacement": "*"}, "rules[0].replacement"),
        (
            {"judge": "g", "action": Action.SHADOW, "on_failure": FailurePolicy(timeout=OnFailure.CLOSED)},
            "rules[0].on_failure.timeout",
        ),
    ],
)
def test_a_rule_that_cannot_be_meant_so_names_the_field(fields, field):
    error = refused(rule(**fields))
    assert error.field == field
    assert "rules[0]" in error.message


def test_a_rule_without_a_kind_names_those_there_are():
    error = refused(Rule(name="r", action=Action.BLOCK))
    assert error.allowed == ("pattern", "secrets", "personal_data", "limits", "allow_models", "judge")


def test_fields_are_named_by_their_place_in_the_file():
    good = Policy(name="a", attach="all", rules=(rule(),))
    with pytest.raises(InvalidInput) as caught:
        checked(PolicyFile(policies=(good, replace(good, name="b", rules=(rule(name="-"),)))))
    assert caught.value.field == "policies[1].rules[0].name"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"attach": Attachment()}, "attach"),
        ({"rules": ()}, "rules"),
        ({"rules": (rule(), rule())}, "rules[1].name"),
        ({"priority": 10**9}, "priority"),
    ],
)
def test_a_policy_that_cannot_be_meant_so_names_the_field(change, field):
    with pytest.raises(InvalidInput) as caught:
        checked_policy(replace(Policy(name="p", attach="all", rules=(rule(),)), **change))
    assert caught.value.field == field


def test_two_policies_of_one_name_are_refused():
    policy = Policy(name="a", attach="all", rules=(rule(),))
    with pytest.raises(InvalidInput, match="there already"):
        checked(PolicyFile(policies=(policy, policy)))


def test_a_judge_is_of_one_family():
    policy = Policy(
        name="a",
        attach="all",
        rules=(
            rule(name="x", family=JudgeFamily.LLAMA_GUARD_3_1B),
            rule(name="y", family=JudgeFamily.LLAMA_GUARD_3_8B),
        ),
    )
    with pytest.raises(InvalidInput, match="judge guard is said to be"):
        checked(PolicyFile(policies=(policy,)))
