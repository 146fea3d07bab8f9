import asyncio

import pytest

from llmgw.core.guard.answer_scan import AnswerScan
from llmgw.core.guard.input_scan import Court, InputScan
from llmgw.core.guard.ledger import Ledger, bypasses
from llmgw.core.guard.openai_turns import chat_conversation
from llmgw.gateway.judge_call import JudgeCaller
from llmgw.gateway.judging import Judging
from llmgw.schema.guard.coverage import Outcome, Why
from llmgw.schema.guard.judge import CanaryState, JudgeFamily
from llmgw.schema.guard.rule import Action, FailurePolicy, OnFailure
from llmgw.schema.model import Role
from llmgw.testing.fake_engine import Fault
from llmgw.testing.gateway_room import a_replica, a_route
from llmgw.testing.guard_policies import rule, rule_set
from llmgw.testing.scripted_judge import WORD, judge_says, scripted_judge

COURT = Court("guard", None, None, 5.0)


class Bench:
    """A judge on a fake engine and those who ask it."""

    def __init__(self, worker):
        self.quarantine = None
        self.heard = []
        self.caller = JudgeCaller(worker.view, worker.admission, worker.upstreams)
        self.judging = Judging(
            self.caller,
            family=lambda judge: JudgeFamily.LLAMA_GUARD_3_1B if judge == "guard" else None,
            quarantined=lambda _: self.quarantine,
            heard=lambda judge, reply: self.heard.append((judge, reply)),
        )

    async def request(self, *rules, text="hello"):
        those = rule_set(*rules)
        ledger = Ledger(those, 1)
        conversation = chat_conversation({"messages": [{"role": "user", "content": text}]})
        scan = InputScan(those, conversation, ("chat",), ledger)
        await self.judging.judge_input(scan)
        return scan, ledger.coverage()

    async def answer(self, *rules, text):
        those = rule_set(*rules)
        scan = AnswerScan(those.output, Ledger(those, 1))
        asked = chat_conversation({"messages": [{"role": "user", "content": "hello"}]})
        for ask in (*scan.feed(text), *scan.end()):
            await self.judging.judge_answer(scan, ask, asked)
        return scan


@pytest.fixture
async def bench(room, engine):
    engine.plain = scripted_judge
    worker = (await room(a_route(a_replica("r", engine.url), model="guard", role=Role.GUARD))).worker
    made = Bench(worker)
    yield made
    made.caller.close()


@pytest.mark.parametrize(("text", "outcome"), [("hello", Outcome.ALLOWED), (f"{WORD} please", Outcome.BLOCKED)])
async def test_a_request_is_judged(bench, text, outcome):
    scan, coverage = await bench.request(rule(), text=text)
    assert scan.decision.outcome is coverage.outcome is outcome
    assert coverage.scans[0].judge_version == "llama-guard-3-1b/r"
    assert len(bench.heard) == 1


@pytest.mark.parametrize(
    ("text", "outcome"), [("fine " * 400, Outcome.ALLOWED), ("fine " * 300 + WORD, Outcome.BLOCKED)]
)
async def test_an_answer_is_judged_window_by_window(bench, text, outcome):
    scan = await bench.answer(rule(), text=text)
    assert scan.decision.outcome is outcome
    assert WORD not in text[: scan.cleared]
    assert scan.done


async def test_rules_that_ask_the_same_cost_one_question(bench, engine):
    await bench.request(rule(name="a"), rule(name="b", threshold=0.9), rule(name="c", action=Action.FLAG))
    assert engine.counts.started == 1


async def test_a_judge_in_quarantine_is_not_asked_and_its_rules_fail_as_they_say(bench, engine):
    bench.quarantine = "says safe to all 8 canaries"
    closed, _ = await bench.request(rule())
    opened, coverage = await bench.request(rule(on_failure=FailurePolicy(misconfigured=OnFailure.OPEN)))
    assert closed.decision.outcome is Outcome.UNAVAILABLE
    assert (opened.decision.outcome, bypasses(coverage)) == (Outcome.ALLOWED, 1)
    assert engine.counts.started == 0
    assert "quarantined" in closed.decision.by[0].verdict.detail


async def test_a_judge_of_no_known_family_is_not_asked(bench):
    scan, _ = await bench.request(rule(judge="other"))
    assert scan.decision.outcome is Outcome.UNAVAILABLE


async def test_a_request_that_is_refused_asks_no_more(bench, engine):
    engine.fail(Fault.HANG)
    waiting = rule(name="slow", timeout_s=60.0, guideline=None)
    async with asyncio.timeout(30):
        scan, coverage = await bench.request(waiting, rule(name="other", judge="unknown"))
    assert scan.decision.outcome is Outcome.UNAVAILABLE
    assert [one.why for one in coverage.unscanned] == [Why.CUT_OFF]


async def test_only_rules_that_hold_keep_a_request_waiting(bench, engine):
    answered = []
    those = rule_set(rule(name="block"), rule(name="flag", action=Action.FLAG, timeout_s=6.0))
    conversation = chat_conversation({"messages": [{"role": "user", "content": "hi"}]})
    scan = InputScan(those, conversation, ("chat",), Ledger(those, 1))
    await bench.judging.judge_input(scan, answered=lambda: answered.append(scan.waits))
    assert answered[-1] is False
    assert engine.counts.started == 2


@pytest.mark.parametrize(
    ("says", "state"),
    [
        (lambda _: judge_says("safe", unsafe=0.01), CanaryState.ALWAYS_SAFE),
        (lambda _: judge_says("unsafe\nS1", unsafe=0.99), CanaryState.ALWAYS_UNSAFE),
        (lambda _: judge_says(""), CanaryState.MUTE),
        (lambda _: judge_says("As a language model"), CanaryState.NONSENSE),
        (
            lambda body: judge_says("unsafe" if "bomb" in body["prompt"] or "murder" in body["prompt"] else "safe"),
            CanaryState.RIGHT,
        ),
    ],
)
async def test_canaries_are_asked_of_a_judge_in_quarantine_too(bench, engine, says, state):
    bench.quarantine = "was wrong"
    engine.plain = says
    report, seconds = await bench.judging.canaries(COURT)
    assert report.state is state
    assert seconds > 0
    assert bench.heard == []


async def test_a_dead_judge_leaves_its_canaries_unanswered_and_one_that_refuses_says_so(bench, engine):
    engine.fail(Fault.STATUS, arg=400, times=99)
    assert (await bench.judging.canaries(COURT))[0].state is CanaryState.REFUSING
    await engine.stop()
    assert (await bench.judging.canaries(COURT))[0].state is CanaryState.SILENT
