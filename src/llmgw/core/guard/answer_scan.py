"""An answer under guard: what judges are to be asked about it, and how much of it may go out.

One scan per text of an answer (each choice, its reasoning, each tool call's arguments). Text that came, plain or in
chunks, is cut into the same windows. Where a rule blocks or redacts, characters go out only when every window that
holds them has a verdict that lets them. No I/O and no clock: verdicts come in whenever they come.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from llmgw.core.guard.decide import Decision, Effect, Finding, effect, joined
from llmgw.core.guard.ledger import Ledger
from llmgw.core.guard.limits import length_verdict, shape_verdict
from llmgw.core.guard.redact import edits, merged, shifted
from llmgw.core.guard.rulebook import BoundRule
from llmgw.core.guard.scanner import window_verdict
from llmgw.core.guard.secrets import LOOK_BACK
from llmgw.core.guard.windows import Splitter, Window
from llmgw.schema.guard.coverage import Outcome
from llmgw.schema.guard.rule import Stage
from llmgw.schema.guard.verdict import Span, Verdict, safe


class Ask(NamedTuple):
    """A window that judges are to be asked about, for these rules."""

    window: Window
    rules: tuple[BoundRule, ...]


class AnswerScan:
    """Takes text and verdicts, and says how far the text may go out."""

    def __init__(self, rules: Sequence[BoundRule], ledger: Ledger) -> None:
        self._plain = tuple(rule for rule in rules if rule.rule.judge is None and not rule.whole)
        self._judged = tuple(rule for rule in rules if rule.rule.judge is not None)
        self._whole = tuple(rule for rule in rules if rule.whole)
        self._holds = any(rule.holds for rule in rules)
        self._holds_whole = any(rule.holds for rule in self._whole)
        self._ledger = ledger
        self._splitter = Splitter()
        self._seen = ""
        """The end of the text that was cut into windows, as far as scanners look back."""
        self._seen_to = 0
        self._text: list[str] = []
        """All of it, kept only for rules that judge complete answers."""
        self._waiting: dict[int, tuple[Window, set[BoundRule]]] = {}
        """Windows with the judged rules that have not answered, by number."""
        self._next = 0
        """Where the first window begins that no rule has looked at."""
        self._ended = False
        self._stopped_at: int | None = None
        self.edits: list[Span] = []
        """Places to be replaced, in order; the kind of each is the text that stands there then."""
        self.decision = Decision(Outcome.ALLOWED)
        """The strongest so far. One that `stops` ends the answer at `cleared`."""

    @property
    def length(self) -> int:
        """Characters that came so far."""
        return self._splitter.length

    @property
    def cleared(self) -> int:
        """Characters, from the beginning, that may go out. It only grows, and not once the decision stops."""
        return self._free() if self._stopped_at is None else self._stopped_at

    @property
    def done(self) -> bool:
        """True when all text is out or may go out, or nothing more will."""
        return self.decision.stops or (self._ended and self.cleared == self.length)

    def feed(self, text: str) -> list[Ask]:
        """Take more of the answer; give what judges are to be asked. After a stop nothing is looked at any more."""
        if self.decision.stops or not text:
            return []
        if self._whole:
            self._text.append(text)
        return list(self._look(self._splitter.feed(text)))

    def end(self) -> list[Ask]:
        """Take the end of the answer; give what judges are still to be asked."""
        if self.decision.stops or self._ended:
            return []
        asks = list(self._look(self._splitter.end()))
        self._judge_whole()
        self._ended = True
        return asks if self._stopped_at is None else []

    def answer(
        self,
        window: Window,
        rule: BoundRule,
        verdict: Verdict,
        *,
        milliseconds: float = 0.0,
        version: str | None = None,
    ) -> None:
        """Take a judge's verdict on a window that was asked about; a second one is ignored."""
        _, unanswered = self._waiting.get(window.number, (window, set[BoundRule]()))
        if rule not in unanswered:
            return
        self._ledger.add(
            rule, Stage.OUTPUT, verdict, characters=len(window.text), milliseconds=milliseconds, judge_version=version
        )
        self._decide(rule, verdict)
        unanswered.discard(rule)
        if not unanswered:
            del self._waiting[window.number]

    def _look(self, windows: Iterable[Window]) -> Iterator[Ask]:
        for window in windows:
            self._next = window.start
            for rule in self._plain:
                self._note(rule, self._verdict(rule, window), len(window.text), window.start)
            self._remember(window)
            for rule in self._judged:
                self._ledger.due(rule, Stage.OUTPUT)
            if self._judged:
                self._waiting[window.number] = (window, set(self._judged))
            if self.decision.stops:
                return
            if self._judged:
                yield Ask(window, self._judged)
        self._next = self._splitter.next_start

    def _judge_whole(self) -> None:
        if self.decision.stops:
            return
        answer = "".join(self._text)
        for rule in self._whole:
            if rule.rule.limits is None:
                continue
            verdict = length_verdict(rule.rule.limits, len(answer))
            if verdict == safe():
                verdict = shape_verdict(rule.rule.limits, answer)
            self._note(rule, verdict, len(answer), 0)

    def _verdict(self, rule: BoundRule, window: Window) -> Verdict:
        if rule.rule.limits is not None:
            return length_verdict(rule.rule.limits, window.end)
        if rule.scanner is None:
            return safe()
        before = self._seen[: len(self._seen) - (self._seen_to - window.start)]
        return window_verdict(rule.rule, rule.scanner, before, window.text)

    def _remember(self, window: Window) -> None:
        new = window.text[self._seen_to - window.start :] if window.number else window.text
        self._seen = (self._seen + new)[-(LOOK_BACK + len(window.text)) :]
        self._seen_to = window.end

    def _note(self, rule: BoundRule, verdict: Verdict, characters: int, start: int) -> None:
        """Take a verdict that needed no judge."""
        self._ledger.due(rule, Stage.OUTPUT)
        self._ledger.add(rule, Stage.OUTPUT, verdict, characters=characters)
        if effect(rule.rule, verdict) is Effect.REDACT:
            self._edit(edits(shifted(verdict.spans, start), rule.rule.replacement))
        self._decide(rule, verdict)

    def _edit(self, found: Sequence[Span]) -> None:
        """Take in new places; only those that reach as far back as the first of them can overlap."""
        first = min(span.start for span in found)
        late: list[Span] = []
        while self.edits and self.edits[-1].end > first:
            late.append(self.edits.pop())
        self.edits += merged((*late, *found))

    def _decide(self, rule: BoundRule, verdict: Verdict) -> None:
        decision = joined(self.decision, Finding(rule, verdict))
        if decision is self.decision:
            return
        if decision.stops and self._stopped_at is None:
            self._stopped_at = self._free()
        self.decision = decision
        self._ledger.decided(decision)

    def _free(self) -> int:
        if not self._holds:
            return self.length
        if self._holds_whole and not self._ended:
            return 0
        open_windows = (
            window.start for window, unanswered in self._waiting.values() if any(rule.holds for rule in unanswered)
        )
        limit = min(open_windows, default=self.length if self._ended else self._next)
        # A place that reaches beyond what is free may grow with the next window: it goes out as a whole.
        at = bisect_right(self.edits, limit, key=lambda edit: edit.end)
        return min(limit, self.edits[at].start) if at < len(self.edits) else limit
