"""Judging: questions of scans go to judges, all at once, and their verdicts come back to the scans."""

import asyncio
from collections.abc import Callable

from llmgw.core.guard.answer_scan import AnswerScan, Ask
from llmgw.core.guard.input_scan import Court, InputScan, Question, courts
from llmgw.core.guard.judges.adapter import JudgeAdapter, room
from llmgw.core.guard.judges.canaries import CANARIES, Canary
from llmgw.core.guard.judges.diagnosis import CanaryResult, diagnose
from llmgw.core.guard.judges.registry import adapter
from llmgw.core.guard.judges.reply import JudgeReply, NoAnswer
from llmgw.core.guard.outlook import View, answer_view
from llmgw.core.guard.rulebook import BoundRule
from llmgw.core.guard.turns import Conversation
from llmgw.gateway.judge_call import JudgeCaller
from llmgw.schema.guard.judge import CanaryReport, JudgeFamily
from llmgw.schema.guard.rule import Action, FailureKind, Rule

CANARY_TIMEOUT_S = 30.0
"""Longer than rules wait: a judge that is slow is told from one that is dead."""
AT_ONCE = 8
"""Windows of one request that are judged at once: a long one must not crowd out others' questions."""
_LEAST_ROOM = 1000

Heard = Callable[[str, JudgeReply], None]
"""Takes a judge's reply."""


def _nobody(_judge: str, _reply: JudgeReply) -> None:
    """Tell nobody."""


class _Stopped(Exception):
    """The request is refused: nothing more need be asked."""


class Judging:
    """One worker's judges. `family` tells what a judge's files say, `quarantined` why it must not be asked."""

    def __init__(
        self,
        caller: JudgeCaller,
        *,
        family: Callable[[str], JudgeFamily | None],
        quarantined: Callable[[str], str | None],
        heard: Heard = _nobody,
    ) -> None:
        self._caller = caller
        self._family = family
        self._quarantined = quarantined
        self._heard = heard
        self._adapters: dict[tuple[JudgeFamily, str | None], JudgeAdapter] = {}

    async def judge_input(
        self, scan: InputScan, *, answered: Callable[[], None] = lambda: None, heard: Heard = _nobody
    ) -> None:
        """Ask all that a scan of a request wants to know; `answered` is called after each verdict.

        Ends early when the request is refused anyway: what was not answered by then is recorded as cut off. Rules that
        hold the request have all answered once `scan.waits` is false, which may be long before the end.
        """
        room = asyncio.Semaphore(AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                for question in scan.questions(self.room):
                    group.create_task(self._ask(scan, question, answered, heard, room))
        except* _Stopped:
            pass  # the others were cancelled with it

    async def judge_answer(self, scan: AnswerScan, ask: Ask, asked: Conversation, *, heard: Heard = _nobody) -> None:
        """Ask about one window of an answer, shown after the newest turns of the request."""
        async with asyncio.TaskGroup() as group:
            for court, rules in courts(ask.rules).items():
                group.create_task(self._ask_answer(scan, ask, court, asked, rules=rules, heard=heard))

    async def ask(self, court: Court, view: View) -> JudgeReply:
        """Ask one judge about one view."""
        return await self._reply(court, view)

    def room(self, court: Court) -> int:
        """Give the characters that a judge is shown at once."""
        found = self._adapter(court)
        return _LEAST_ROOM if found is None else room(found, self._caller.context(court.judge))

    async def canaries(self, court: Court) -> tuple[CanaryReport, float]:
        """Ask all canaries, one after the other, also of a judge in quarantine. Give the longest answer's seconds."""
        results, longest = [], 0.0
        for canary in CANARIES:
            reply = await self._reply(court._replace(timeout_s=CANARY_TIMEOUT_S), canary.view, canary=True)
            results.append(canary_result(canary, reply))
            longest = max(longest, reply.seconds)
        return diagnose(results), longest

    async def _ask(
        self,
        scan: InputScan,
        question: Question,
        answered: Callable[[], None],
        heard: Heard,
        at_once: asyncio.Semaphore,
    ) -> None:
        async with at_once:
            reply = await self._reply(question.court, question.view)
        heard(question.court.judge, reply)
        for rule in question.rules:
            scan.answer(
                question,
                rule,
                reply.verdict(rule.rule),
                milliseconds=reply.seconds * 1000,
                version=reply.version,
            )
        answered()
        if scan.decision.stops:
            raise _Stopped

    async def _ask_answer(
        self,
        scan: AnswerScan,
        ask: Ask,
        court: Court,
        asked: Conversation,
        *,
        rules: tuple[BoundRule, ...],
        heard: Heard,
    ) -> None:
        view = answer_view(asked.turns, ask.window.text, self.room(court))
        reply = await self._reply(court, view)
        heard(court.judge, reply)
        for rule in rules:
            verdict = reply.verdict(rule.rule)
            scan.answer(ask.window, rule, verdict, milliseconds=reply.seconds * 1000, version=reply.version)

    async def _reply(self, court: Court, view: View, *, canary: bool = False) -> JudgeReply:
        found = self._adapter(court)
        reason = None if canary else self._quarantined(court.judge)
        if found is None:
            reply = JudgeReply(NoAnswer(FailureKind.MISCONFIGURED, f"nobody knows how to ask {court.judge}"), 0.0)
        elif reason is not None:
            reply = JudgeReply(NoAnswer(FailureKind.MISCONFIGURED, f"{court.judge} is quarantined: it {reason}"), 0.0)
        else:
            reply = await self._caller.ask(court.judge, found, view, timeout_s=court.timeout_s)
        if not canary:
            self._heard(court.judge, reply)
        return reply

    def _adapter(self, court: Court) -> JudgeAdapter | None:
        family = court.family or self._family(court.judge)
        if family is None:
            return None
        key = (family, court.guideline)
        if key not in self._adapters:
            self._adapters[key] = adapter(*key)
        return self._adapters[key]


def canary_result(canary: Canary, reply: JudgeReply) -> CanaryResult:
    """Say what a judge's reply to a canary means."""
    plain = Rule(name="canary", judge="canary", action=Action.BLOCK)
    return CanaryResult(canary, reply.verdict(plain), reply.empty)
