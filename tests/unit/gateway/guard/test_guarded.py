"""One request under guard: what holds between its parts."""

import asyncio
from types import SimpleNamespace

from llmgw.core.guard.openai_answer import AnswerChannel, AnswerPiece
from llmgw.core.guard.turns import Conversation
from llmgw.gateway.guard.guarded import Guarded
from llmgw.schema.guard.rule import Stage
from llmgw.schema.guard.verdict import Verdict, VerdictState, safe
from llmgw.testing.guard_policies import rule, rule_set

MAIN = AnswerChannel(0, "content")


class OneByOne:
    """Judges that answer for one rule after the other, when told."""

    def __init__(self, *verdicts):
        self._verdicts = verdicts
        self.go = asyncio.Semaphore(0)

    async def judge_answer(self, scan, ask, _asked, *, heard):
        del heard
        for each, verdict in zip(ask.rules, self._verdicts, strict=True):
            scan.answer(ask.window, each, verdict)
            await self.go.acquire()


def guarded(judging, *rules):
    call = SimpleNamespace(held=False)
    return Guarded(
        call, rule_set(*rules), Conversation(), judging, models=("m",), version=1, heard=lambda _judge, _reply: None
    )


async def test_an_answer_is_ended_the_moment_a_verdict_is_in_though_other_judges_still_think():
    judging = OneByOne(Verdict(state=VerdictState.UNSAFE), safe())
    under = guarded(judging, rule(stage=Stage.OUTPUT), rule(name="slow", stage=Stage.OUTPUT, timeout_s=20))
    under.feed(AnswerPiece(MAIN, "bad"))
    under.end()
    await asyncio.sleep(0)
    assert under.stopped is not None
    assert under.settled
    judging.go.release()
    judging.go.release()
    await asyncio.sleep(0)


async def test_an_answer_waits_for_every_rule_that_holds_it():
    judging = OneByOne(safe(), safe())
    under = guarded(judging, rule(stage=Stage.OUTPUT), rule(name="slow", stage=Stage.OUTPUT, timeout_s=20))
    under.feed(AnswerPiece(MAIN, "fine"))
    under.end()
    await asyncio.sleep(0)
    assert not under.settled
    judging.go.release()
    await asyncio.sleep(0.01)
    assert under.settled
    judging.go.release()
