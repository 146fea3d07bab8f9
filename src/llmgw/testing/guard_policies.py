"""Policies and rules for tests of guardrails."""

from datetime import UTC, datetime
from typing import Any, Literal

from llmgw.core.guard.rulebook import BoundRule, Caller, RuleBook, RuleSet
from llmgw.schema.guard.policy import Attachment, Policy, StoredPolicy
from llmgw.schema.guard.rule import Action, Rule

ANYBODY = Caller(project="default", key="lk_anybody", model="chat")


def rule(**fields: Any) -> Rule:
    """Make a rule; by default it blocks what a judge calls unsafe."""
    given = {"name": "r", "action": Action.BLOCK} | fields
    if not {"pattern", "secrets", "personal_data", "limits", "allow_models", "judge"} & set(given):
        given["judge"] = "guard"
    return Rule(**given)


def policy(
    name: str, *rules: Rule, attach: Literal["all"] | Attachment = "all", revision: int = 1, **fields: Any
) -> StoredPolicy:
    """Make a policy, attached to everything by default."""
    made = Policy(name=name, attach=attach, rules=rules or (rule(),), **fields)
    return StoredPolicy(policy=made, revision=revision, changed_at=datetime(2026, 1, 1, tzinfo=UTC))


def rule_set(*rules: Rule) -> RuleSet:
    """Give the rules as they apply to anybody."""
    return RuleBook([policy("p", *rules)], version=1).rules(ANYBODY)


def bound(**fields: Any) -> BoundRule:
    """Give one rule as it applies to anybody."""
    return rule_set(rule(**fields)).rules[0]
