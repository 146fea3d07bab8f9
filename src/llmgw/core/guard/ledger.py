"""The ledger of one request: adds up what was scanned and what was not, and gives the coverage record."""

from collections.abc import Callable, Iterable, Sequence

from llmgw.core.guard.decide import Decision, Effect, effect
from llmgw.core.guard.rulebook import BoundRule, RuleSet
from llmgw.schema.guard.category import Category
from llmgw.schema.guard.coverage import Coverage, Outcome, RuleScan, Unscanned, Why
from llmgw.schema.guard.rule import FailureKind, Stage
from llmgw.schema.guard.verdict import Verdict, VerdictState

_STRENGTH = (Outcome.ALLOWED, Outcome.FLAGGED, Outcome.REDACTED, Outcome.UNAVAILABLE, Outcome.BLOCKED)
_WORST = (VerdictState.SAFE, VerdictState.ERROR, VerdictState.UNSAFE)


class Ledger:
    """Every text that a rule is to see is `due` first and `add`ed with its verdict; what stays due was cut off."""

    def __init__(
        self,
        rules: RuleSet,
        version: int | None,
        witness: Callable[[BoundRule, Stage, Verdict], None] | None = None,
    ) -> None:
        self._version = version
        self._witness = witness
        """Told of each verdict."""
        self._lines = {
            (bound, stage): _Line(bound, stage)
            for stage, bounds in ((Stage.INPUT, rules.input), (Stage.OUTPUT, rules.output))
            for bound in bounds
        }
        self._unscanned: list[Unscanned] = []
        self._outcome = Outcome.ALLOWED
        self._by: list[str] = []

    def due(self, bound: BoundRule, stage: Stage, texts: int = 1) -> None:
        """Note that a rule is to see so many texts."""
        self._lines[bound, stage].due += texts

    def add(
        self,
        bound: BoundRule,
        stage: Stage,
        verdict: Verdict,
        *,
        characters: int,
        milliseconds: float = 0.0,
        judge_version: str | None = None,
    ) -> None:
        """Note a verdict on one text that was due."""
        self._lines[bound, stage].add(verdict, characters, milliseconds, judge_version)
        if self._witness is not None:
            self._witness(bound, stage, verdict)

    def missed(self, parts: Iterable[Unscanned]) -> None:
        """Note parts that no rule can read."""
        self._unscanned += parts

    def decided(self, decision: Decision) -> None:
        """Note what happened; the strongest of several decisions stays."""
        if _STRENGTH.index(decision.outcome) < _STRENGTH.index(self._outcome):
            return
        if decision.outcome is not self._outcome:
            self._outcome, self._by = decision.outcome, []
        self._by += [finding.bound.name for finding in decision.by if finding.bound.name not in self._by]

    @property
    def pending(self) -> int:
        """Texts that rules are still to see."""
        return sum(max(line.due, 0) for line in self._lines.values())

    def coverage(self, *, over: bool = True) -> Coverage:
        """Give the record as it is now. `over`: what is still due will not be looked at any more."""
        cut = [line.cut() for line in self._lines.values() if line.due > 0] if over else []
        return Coverage(
            outcome=self._outcome,
            version=self._version,
            scans=tuple(line.scan() for line in self._lines.values()),
            unscanned=(*self._unscanned, *cut),
            by=tuple(self._by),
        )


def bypasses(coverage: Coverage) -> int:
    """Count the texts that passed without a verdict."""
    return sum(scan.bypassed for scan in coverage.scans)


def complete(coverage: Coverage) -> bool:
    """Say whether every rule that applies saw all it was to see."""
    return not coverage.unscanned and not any(scan.failures for scan in coverage.scans)


def header(coverage: Coverage, *, pending: int = 0) -> str:
    """Write the record for an answer's header: numbers and names, nothing of the text.

    `pending`: texts that rules look at while, or after, the answer goes out.
    """
    failures = sum(scan.failures for scan in coverage.scans)
    parts = [
        coverage.outcome.value,
        f"rules={len({(scan.policy, scan.rule) for scan in coverage.scans})}",
        f"texts={sum(scan.texts - scan.failures for scan in coverage.scans)}",
        f"failed={failures}",
        f"bypassed={bypasses(coverage)}",
        f"unscanned={len(coverage.unscanned)}",
    ]
    if pending:
        parts.append(f"pending={pending}")
    if coverage.version is not None:
        parts.append(f"version={coverage.version}")
    if coverage.by:
        parts.append(f"by={','.join(coverage.by[:5])}")
    return "; ".join(parts)


class _Line:
    """What one rule did at one stage."""

    def __init__(self, bound: BoundRule, stage: Stage) -> None:
        self.bound, self.stage = bound, stage
        self.due = 0
        self._state = VerdictState.SAFE
        self._texts = self._characters = self._failures = self._bypassed = 0
        self._score: float | None = None
        self._categories: set[Category] = set()
        self._codes: set[str] = set()
        self._failure: FailureKind | None = None
        self._milliseconds = 0.0
        self._judge_version: str | None = None

    def add(self, verdict: Verdict, characters: int, milliseconds: float, judge_version: str | None) -> None:
        self.due -= 1
        self._texts += 1
        self._state = max(self._state, verdict.state, key=_WORST.index)
        self._milliseconds = max(self._milliseconds, milliseconds)
        self._judge_version = judge_version or self._judge_version
        if verdict.state is VerdictState.ERROR:
            self._failures += 1
            self._failure = verdict.failure
            self._bypassed += effect(self.bound.rule, verdict) is Effect.BYPASS
            return
        self._characters += characters
        self._categories |= set(verdict.categories)
        self._codes |= set(verdict.codes)
        if verdict.score is not None:
            self._score = verdict.score if self._score is None else max(self._score, verdict.score)

    def scan(self) -> RuleScan:
        return RuleScan(
            policy=self.bound.policy,
            revision=self.bound.revision,
            rule=self.bound.rule.name,
            stage=self.stage,
            action=self.bound.rule.action,
            state=self._state,
            texts=self._texts,
            characters=self._characters,
            judge=self.bound.rule.judge,
            judge_version=self._judge_version,
            score=self._score,
            categories=_sorted(self._categories),
            codes=tuple(sorted(self._codes)),
            failure=self._failure,
            failures=self._failures,
            bypassed=self._bypassed,
            milliseconds=round(self._milliseconds, 3),
        )

    def cut(self) -> Unscanned:
        where = f"{self.due} texts" if self.due > 1 else "1 text"
        return Unscanned(
            stage=self.stage, where=where, why=Why.CUT_OFF, policy=self.bound.policy, rule=self.bound.rule.name
        )


def _sorted(categories: set[Category]) -> tuple[Category, ...]:
    order: Sequence[Category] = list(Category)
    return tuple(sorted(categories, key=order.index))
