"""Which rules apply to a request. Policies add up: nothing that a client sends takes a rule away."""

from collections.abc import Iterable
from functools import cached_property
from typing import Literal, NamedTuple

from llmgw.core.guard.scanner import Scanner, scanner
from llmgw.schema.guard.policy import Attachment, StoredPolicy, Unscannable
from llmgw.schema.guard.rule import Action, FailureKind, OnFailure, Rule, Stage, choice

MAX_REMEMBERED = 4096
"""Callers whose rules are kept ready."""


class Caller(NamedTuple):
    """Whose request it is, and which model it asks."""

    project: str | None
    key: str | None
    model: str
    others: tuple[str, ...] = ()
    """Models that may answer in its place: their rules count too, so that an alias is no way round them."""


class BoundRule:
    """A rule with the policy it comes from and what carries it out. Compared by identity: one per rule and version."""

    def __init__(self, policy: StoredPolicy, rule: Rule) -> None:
        self.policy = policy.policy.name
        self.revision = policy.revision
        self.priority = policy.policy.priority
        self.rule = rule
        self.name = f"{self.policy}/{rule.name}"
        self.scanner: Scanner | None = scanner(rule)

        self.holds = rule.action in {Action.BLOCK, Action.REDACT} or any(
            choice(rule, failure) is OnFailure.CLOSED for failure in FailureKind
        )
        """True when what it looks at may not pass before it has answered: it changes it, or refuses it if it cannot
        look."""

    @property
    def whole(self) -> bool:
        """True when only a complete answer can be judged."""
        return self.rule.limits is not None and self.rule.limits.json_schema is not None

    def at(self, stage: Stage) -> bool:
        """Say whether it looks at `stage` (input or output)."""
        if self.rule.allow_models is not None and stage is Stage.OUTPUT:
            return False
        return self.rule.stage in {stage, Stage.BOTH}


class RuleSet:
    """The rules of one kind of request, those of larger priority first."""

    def __init__(self, rules: Iterable[BoundRule] = (), unscannable: Unscannable = Unscannable.MARK) -> None:
        self.rules = tuple(rules)
        self.unscannable = unscannable
        self.input = tuple(rule for rule in self.rules if rule.at(Stage.INPUT))
        self.output = tuple(rule for rule in self.rules if rule.at(Stage.OUTPUT))

    def __bool__(self) -> bool:
        return bool(self.rules)

    @cached_property
    def holds_input(self) -> bool:
        """True when no byte may leave for the client before input rules have answered."""
        return any(rule.holds for rule in self.input)

    @cached_property
    def holds_output(self) -> bool:
        """True when text of the answer is held back until it was judged."""
        return any(rule.holds for rule in self.output)

    @cached_property
    def judges(self) -> tuple[str, ...]:
        """Name the models that are asked."""
        return tuple(sorted({rule.rule.judge for rule in self.rules if rule.rule.judge is not None}))


class RuleBook:
    """All policies of one version, ready to be applied."""

    def __init__(self, policies: Iterable[StoredPolicy] = (), *, version: int | None = None) -> None:
        self.version = version
        ordered = sorted(policies, key=lambda stored: (-stored.policy.priority, stored.policy.name))
        self._policies = [
            (stored, tuple(BoundRule(stored, rule) for rule in stored.policy.rules)) for stored in ordered
        ]
        self._remembered: dict[Caller, RuleSet] = {}

    def rules(self, caller: Caller) -> RuleSet:
        """Give the rules that apply to a request."""
        found = self._remembered.get(caller)
        if found is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[caller] = self._find(caller)
        return found

    def judges(self) -> dict[str, tuple[StoredPolicy, ...]]:
        """Name all judges that policies ask, with those policies."""
        asked: dict[str, list[StoredPolicy]] = {}
        for stored, rules in self._policies:
            for judge in sorted({bound.rule.judge for bound in rules if bound.rule.judge is not None}):
                asked.setdefault(judge, []).append(stored)
        return {judge: tuple(policies) for judge, policies in sorted(asked.items())}

    def _find(self, caller: Caller) -> RuleSet:
        those = [(stored, rules) for stored, rules in self._policies if applies(stored, caller)]
        reject = any(_rejects(stored) for stored, _ in those)
        return RuleSet(
            (rule for _, rules in those for rule in rules), Unscannable.REJECT if reject else Unscannable.MARK
        )


def applies(stored: StoredPolicy, caller: Caller) -> bool:
    """Say whether a policy applies to a request."""
    policy = stored.policy
    return any(
        _names(policy.attach, caller, model) and not _names(policy.exempt, caller, model)
        for model in (caller.model, *caller.others)
    )


def _names(attachment: Attachment | Literal["all"], caller: Caller, model: str) -> bool:
    if not isinstance(attachment, Attachment):
        return True
    return caller.project in attachment.projects or caller.key in attachment.keys or model in attachment.models


def _rejects(stored: StoredPolicy) -> bool:
    said = stored.policy.unscannable
    if said is not None:
        return said is Unscannable.REJECT
    return any(rule.action is Action.BLOCK for rule in stored.policy.rules)
