"""A request under guard: what rules find in it at once, what judges are to be asked, and what follows. No I/O."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from llmgw.core.guard.decide import Decision, Effect, Finding, effect, joined
from llmgw.core.guard.ledger import Ledger
from llmgw.core.guard.limits import Size, input_verdict, model_verdict
from llmgw.core.guard.outlook import View, outlook
from llmgw.core.guard.rulebook import BoundRule, RuleSet
from llmgw.core.guard.scanner import verdict
from llmgw.core.guard.turns import Conversation
from llmgw.schema.guard.coverage import Outcome, Unscanned, Why
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.guard.policy import Unscannable
from llmgw.schema.guard.rule import Stage
from llmgw.schema.guard.verdict import Verdict


class Court(NamedTuple):
    """A judge as some rules ask it: those of one court share its answers."""

    judge: str
    family: JudgeFamily | None
    """The policies' word; `None`: what its files say."""
    guideline: str | None
    timeout_s: float


class Question(NamedTuple):
    """A view that a judge is to be asked about, for these rules."""

    number: int
    court: Court
    view: View
    rules: tuple[BoundRule, ...]


class InputScan:
    """What is found in one request. Rules without a judge have answered when it is made."""

    def __init__(self, rules: RuleSet, conversation: Conversation, models: tuple[str, ...], ledger: Ledger) -> None:
        self._rules = rules
        self._conversation = conversation
        self._ledger = ledger
        self._waiting: dict[int, set[BoundRule]] = {}
        self.decision = Decision(Outcome.ALLOWED)
        """The strongest so far."""
        self.redacting: list[BoundRule] = []
        """Rules that found places to be replaced before the request goes on."""
        self.rejected: tuple[Unscanned, ...] = ()
        """Parts that cannot be scanned where a policy does not let those pass: the decision is to block then."""
        for rule in rules.input:
            self._look(rule, models)
        if any(reads_text(rule) for rule in rules.input):
            self._miss([Unscanned(stage=Stage.INPUT, where=one.where, why=one.why) for one in conversation.unreadable])

    @property
    def waits(self) -> bool:
        """True while a rule that holds the request has not answered."""
        return any(rule.holds for unanswered in self._waiting.values() for rule in unanswered)

    def questions(self, room: Callable[[Court], int]) -> list[Question]:
        """Give what judges are to be asked; `room` tells how many characters a judge is shown at once."""
        found: list[Question] = []
        for court, those in courts(self._rules.input).items():
            seen = outlook(self._conversation.turns, room(court))
            for view in seen.views:
                question = Question(len(self._waiting), court, view, those)
                self._waiting[question.number] = set(those)
                found.append(question)
            for rule in those:
                self._ledger.due(rule, Stage.INPUT, len(seen.views))
            if seen.unseen:
                where = f"the oldest {seen.unseen} characters"
                self._miss(
                    Unscanned(stage=Stage.INPUT, where=where, why=Why.TOO_LONG, policy=one.policy, rule=one.rule.name)
                    for one in those
                )
        return found

    def answer(
        self,
        question: Question,
        rule: BoundRule,
        verdict: Verdict,
        *,
        milliseconds: float = 0.0,
        version: str | None = None,
    ) -> None:
        """Take a judge's verdict; a second one is ignored."""
        unanswered = self._waiting.get(question.number, set())
        if rule not in unanswered:
            return
        unanswered.discard(rule)
        self._note(rule, verdict, question.view.characters, milliseconds, version)

    def _look(self, rule: BoundRule, models: tuple[str, ...]) -> None:
        for found, characters in self._plain(rule, models):
            self._ledger.due(rule, Stage.INPUT)
            self._note(rule, found, characters)
            if effect(rule.rule, found) is Effect.REDACT and rule not in self.redacting:
                self.redacting.append(rule)

    def _plain(self, rule: BoundRule, models: tuple[str, ...]) -> Iterator[tuple[Verdict, int]]:
        conversation = self._conversation
        if rule.rule.allow_models is not None:
            yield model_verdict(rule.rule.allow_models, models), len(models[0])
        elif rule.rule.limits is not None:
            size = Size(characters=conversation.characters, messages=conversation.messages, tools=conversation.tools)
            yield input_verdict(rule.rule.limits, size), size.characters
        elif rule.scanner is not None:
            for turn in conversation.turns:
                yield verdict(rule.rule, rule.scanner, turn.text), len(turn.text)

    def _note(
        self,
        rule: BoundRule,
        found: Verdict,
        characters: int,
        milliseconds: float = 0.0,
        version: str | None = None,
    ) -> None:
        self._ledger.add(
            rule, Stage.INPUT, found, characters=characters, milliseconds=milliseconds, judge_version=version
        )
        self._decide(joined(self.decision, Finding(rule, found)))

    def _miss(self, parts: Iterable[Unscanned]) -> None:
        missed = tuple(parts)
        self._ledger.missed(missed)
        if missed and self._rules.unscannable is Unscannable.REJECT:
            self.rejected += missed
            self._decide(Decision(Outcome.BLOCKED, self.decision.by if self.decision.stops else ()))

    def _decide(self, decision: Decision) -> None:
        if decision is self.decision or (self.rejected and not decision.stops):
            return
        self.decision = decision
        self._ledger.decided(decision)


def courts(rules: tuple[BoundRule, ...]) -> dict[Court, tuple[BoundRule, ...]]:
    """Put rules together that ask the same judge the same thing."""
    found: dict[Court, list[BoundRule]] = {}
    for rule in rules:
        if rule.rule.judge is not None:
            court = Court(rule.rule.judge, rule.rule.family, rule.rule.guideline, rule.rule.timeout_s)
            found.setdefault(court, []).append(rule)
    return {court: tuple(those) for court, those in found.items()}


def reads_text(rule: BoundRule) -> bool:
    """Say whether a rule is about what texts say, so that parts without text escape it."""
    return rule.scanner is not None or rule.rule.judge is not None
