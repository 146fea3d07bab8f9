"""One request under guard: asked of judges while its model works, and held back where a rule must answer first."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from llmgw.core.guard.answer_scan import AnswerScan, Ask
from llmgw.core.guard.decide import Decision
from llmgw.core.guard.input_scan import InputScan
from llmgw.core.guard.judges.reply import JudgeReply
from llmgw.core.guard.ledger import Ledger
from llmgw.core.guard.moderated import Moderated
from llmgw.core.guard.openai_answer import AnswerChannel, AnswerPiece
from llmgw.core.guard.redact import rewritten
from llmgw.core.guard.rulebook import RuleSet
from llmgw.core.guard.turns import Conversation
from llmgw.gateway.call import Call
from llmgw.gateway.errors import ApiError
from llmgw.gateway.guard.refused import Refused, coverage_header, refused
from llmgw.gateway.judging import Judging
from llmgw.schema.guard.coverage import Coverage, Unscanned

AT_ONCE = 4
"""Windows of one answer that are judged at once: a long plain answer must not crowd out others' questions."""

_MAIN = ("content", "text")
"""Texts that are the answer itself: rules about a complete answer look at these only."""


class Guarded:
    """What guardrails do with one request. `heard` is told each judge's reply."""

    def __init__(
        self,
        call: Call,
        rules: RuleSet,
        conversation: Conversation,
        judging: Judging,
        *,
        models: tuple[str, ...],
        version: int | None,
        heard: Callable[[str, JudgeReply], None],
        moderated: Moderated | None = None,
    ) -> None:
        self.call = call
        self.rules = rules
        self.moderated = moderated
        """Set where the client wants verdicts with its answer."""
        self.ledger = Ledger(rules, version, None if moderated is None else moderated.heard)
        self.input = InputScan(rules, conversation, models, self.ledger)
        self.waits = any(rule.holds and rule.rule.judge is not None for rule in rules.input)
        """No byte may leave for the client: a rule that holds the request has not answered."""
        call.held = self.waits
        self._conversation = conversation
        self._judging = judging
        self._heard = heard
        self._scans: dict[AnswerChannel, AnswerScan] = {}
        self._room = asyncio.Semaphore(AT_ONCE)
        self._judges: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._on_change: Callable[[], None] = _nothing
        self._rest: Callable[[], Awaitable[None]] | None = None
        self._task: asyncio.Task[Any] | None = None
        self._refused = False
        self._crash: BaseException | None = None

    async def run(self, answer: Callable[[], Awaitable[None]]) -> None:
        """Let `answer` ask the model, while judges think. Raises as it does, and `Refused`.

        Returns once all rules have answered, which may be after the client got everything.
        """
        self._task = asyncio.current_task()
        try:
            if any(rule.rule.judge is not None for rule in self.rules.input):
                self._start(self._judge_input())
            await self._answered(answer)
        except asyncio.CancelledError:
            if self._crash is None and not self._refused:
                raise
            assert self._task is not None  # noqa: S101 (tells mypy: handlers run in a task)
            self._task.uncancel()
            if self._crash is not None:
                raise self._crash from None
        finally:
            for task in self._judges:
                task.cancel()

    @property
    def coverage(self) -> Coverage:
        """The record as it is now."""
        return self.ledger.coverage()

    def header(self) -> tuple[bytes, bytes]:
        """Give what is known of the coverage now, for the answer's head."""
        return coverage_header(self.ledger, over=False)

    async def opened(self) -> None:
        """Wait until bytes may leave for the client. Cancelled when none may."""
        await self.until(lambda: not self.waits)

    def refusal(self) -> Refused:
        """Say why the answer is not given, once `stopped` is set."""
        return refused(self.decision, self.ledger)

    @property
    def stopped(self) -> AnswerScan | None:
        """The text of the answer that a rule ended, from the moment its verdict is in."""
        return next((scan for scan in self._scans.values() if scan.decision.stops), None)

    @property
    def decision(self) -> Decision:
        """What ended the answer."""
        stopped = self.stopped
        assert stopped is not None, "an answer that nothing stopped"  # noqa: S101 (a bug of the caller)
        return stopped.decision

    # The answer, for those who pass it on -------------------------------------------------------------

    def later(self, rest: Callable[[], Awaitable[None]], on_change: Callable[[], None] | None = None) -> None:
        """Do `rest` once the replica is free again; call `on_change` whenever more may go out."""
        self._rest = rest
        self._on_change = on_change or _nothing

    def scan(self, channel: AnswerChannel) -> AnswerScan:
        """Give the scan of one text of the answer."""
        found = self._scans.get(channel)
        if found is None:
            rules = [rule for rule in self.rules.output if not rule.whole or channel.place in _MAIN]
            found = self._scans[channel] = AnswerScan(rules, self.ledger)
        return found

    def feed(self, piece: AnswerPiece) -> None:
        """Take more of a text."""
        scan = self.scan(piece.channel)
        self._ask(scan, scan.feed(piece.text))

    def end(self) -> None:
        """Take the end of the answer. Idempotent."""
        for scan in tuple(self._scans.values()):
            self._ask(scan, scan.end())

    @property
    def changes(self) -> bool:
        """True when a rule redacted something of the answer."""
        return any(scan.edits for scan in self._scans.values())

    def rewritten(self, piece: AnswerPiece, start: int) -> str:
        """Give a piece of a text, that begins at `start`, as it may go out."""
        return rewritten(piece.text, start, self.scan(piece.channel).edits)

    def missed(self, part: Unscanned) -> None:
        """Note a part of the answer that cannot be read."""
        self.ledger.missed([part])

    @property
    def settled(self) -> bool:
        """True when nothing is held back any more: a rule ended the answer, or all of it may go out."""
        if self.waits:
            return False
        return self.stopped is not None or all(scan.done for scan in self._scans.values())

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something is so that only verdicts change."""
        while not reached():
            self._changed.clear()
            await self._changed.wait()

    # --------------------------------------------------------------------------------------------------

    async def _answered(self, answer: Callable[[], Awaitable[None]]) -> None:
        try:
            await answer()
            if self._rest is not None:
                await self._rest()
        except ApiError:
            await self.opened()
            raise
        self.call.ended()
        self.end()
        while self._judges:
            await asyncio.wait(self._judges)

    async def _judge_input(self) -> None:
        await self._judging.judge_input(self.input, answered=self._input_answered, heard=self._heard)
        self._input_answered()

    def _input_answered(self) -> None:
        if not self.waits:
            return
        if self.input.decision.stops:
            self._refuse(refused(self.input.decision, self.ledger, self.input.rejected))
        elif not self.input.waits:
            self.waits = self.call.held = False
            self._change()

    def _refuse(self, error: Refused) -> None:
        """Tell the client at once; the model is told to stop by the cancellation, and may take its time."""
        if self._refused or self._task is None:
            return
        self._refused = True
        self.call.fail(error)
        self.call.ended()
        self._task.cancel()

    def _ask(self, scan: AnswerScan, asks: Sequence[Ask]) -> None:
        for ask in asks:
            self._start(self._judge_window(scan, ask))

    async def _judge_window(self, scan: AnswerScan, ask: Ask) -> None:
        async with self._room:
            if self.stopped is not None:
                return  # cut off, and recorded so
            await self._judging.judge_answer(scan, ask, self._conversation, heard=self._heard)
        self._change()

    def _change(self) -> None:
        self._changed.set()
        self._on_change()

    def _start(self, judging: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(judging)
        self._judges.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._judges.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        # A bug must never let anything pass that nobody judged.
        self._crash = self._crash or task.exception()
        if self._task is not None:
            self._task.cancel()


def _nothing() -> None:
    """Change nothing."""
