"""Moderation that a client asks for with its chat: rules of this one request, and their verdicts in OpenAI's words."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from llmgw.core.guard.moderation import moderation_result
from llmgw.core.guard.rulebook import BoundRule, RuleSet
from llmgw.schema.guard.policy import Policy, StoredPolicy, Unscannable
from llmgw.schema.guard.rule import Action, Rule, Stage
from llmgw.schema.guard.verdict import Verdict, VerdictState
from llmgw.schema.openai.moderation import ModerationMode, ModerationWish

POLICY = "moderation"
"""Name of the policy that the rules of such a request seem to come from, in coverage records and refusals."""
TIMEOUT_S = 60.0
"""Who asks for scores waits for them."""


class Moderated:
    """The judge's verdicts on one request and its answer."""

    def __init__(self, wish: ModerationWish) -> None:
        self._judge = wish.model
        modes = wish.modes()
        policy = Policy(
            name=POLICY,
            attach="all",
            unscannable=Unscannable.MARK,
            rules=tuple(_rule(stage, wish.model, modes[stage]) for stage in (Stage.INPUT, Stage.OUTPUT)),
        )
        stored = StoredPolicy(policy=policy, changed_at=datetime(1970, 1, 1, tzinfo=UTC))
        self._rules = {rule.stage: BoundRule(stored, rule) for rule in policy.rules}
        for bound in self._rules.values():
            bound.holds = True  # the verdicts are part of the answer
        self._verdicts: dict[Stage, list[Verdict]] = {Stage.INPUT: [], Stage.OUTPUT: []}

    def with_rules(self, rules: RuleSet | None) -> RuleSet:
        """Add the rules of this request to those that apply anyway."""
        known = rules or RuleSet()
        return RuleSet((*known.rules, *self._rules.values()), known.unscannable)

    def heard(self, bound: BoundRule, stage: Stage, verdict: Verdict) -> None:
        """Take in a verdict; those of other rules are not the client's to see."""
        if bound in self._rules.values():
            self._verdicts[stage].append(verdict)

    def member(self) -> Mapping[str, Any]:
        """Give the member `moderation` of the answer. What a judge gave no verdict on is an error, never unflagged."""
        return {"input": self._side(Stage.INPUT), "output": self._side(Stage.OUTPUT)}

    def _side(self, stage: Stage) -> dict[str, Any]:
        verdicts = self._verdicts[stage]
        failed = next((one for one in verdicts if one.state is VerdictState.ERROR), None)
        if failed is not None:
            code = failed.failure.value if failed.failure is not None else "unclear"
            words = f"the judge {self._judge!r} gave no verdict: {failed.detail or code}"
            return {"type": "error", "code": code, "message": words}
        result = {"type": "moderation_result", "model": self._judge, **moderation_result(verdicts)}
        return {"type": "moderation_results", "model": self._judge, "results": [result]}


def _rule(stage: Stage, judge: str, mode: ModerationMode) -> Rule:
    action = Action.BLOCK if mode is ModerationMode.BLOCK else Action.FLAG
    return Rule(name=stage.value, judge=judge, stage=stage, action=action, timeout_s=TIMEOUT_S)
