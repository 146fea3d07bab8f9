"""Judges prove themselves: those that do not are left out, and said so."""

import asyncio
import contextlib
import json

import pytest

from llmgw.gateway.guard.canary_rounds import CanaryRounds
from llmgw.schema.guard.judge import CanaryState
from llmgw.schema.model import Role
from llmgw.testing.fake_engine import FakeEngine, Fault
from llmgw.testing.gateway_room import a_replica, a_route, a_view, policies_of, until
from llmgw.testing.guard_policies import policy
from llmgw.testing.scripted_judge import judge_says

UNSAFE = ("bomb", "murder", "poison")


def right(body):
    said = str(body["prompt"]).partition("<BEGIN CONVERSATION>")[2].partition("<END CONVERSATION>")[0]
    unsafe = any(word in said for word in UNSAFE)
    return judge_says("unsafe\nS1" if unsafe else "safe")


def inverted(body):
    return judge_says("safe" if b"unsafe" in right(body) else "unsafe\nS1")


def view(*engines):
    replicas = [a_replica(f"j{number}", engine.url, slots=1) for number, engine in enumerate(engines)]
    return a_view(a_route(*replicas, model="guard", role=Role.GUARD), policies=policies_of(policy("p")))


@contextlib.asynccontextmanager
async def rounds(*engines, **settings):
    sent = []
    found = CanaryRounds(None, "g1", sent.append, **({"every_s": 0.05} | settings))
    found.take(view(*engines))
    running = asyncio.ensure_future(found.run())
    try:
        yield found, sent
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def judge():
    async with FakeEngine(model="guard") as one:
        one.plain = right
        yield one


@pytest.fixture
async def other():
    async with FakeEngine(model="guard") as one:
        one.plain = right
        yield one


async def test_a_judge_that_is_right_is_asked_again_and_again(judge):
    async with rounds(judge) as (found, sent):
        await until(lambda: judge.counts.finished > 16)
        report = found.reports()["guard"]
        assert report.canaries.state is CanaryState.RIGHT
        assert (report.quarantined, sent) == (False, [])
        assert judge.counts.most_at_once == 1


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (lambda _: judge_says("safe"), CanaryState.ALWAYS_SAFE),
        (lambda _: judge_says("unsafe\nS1"), CanaryState.ALWAYS_UNSAFE),
        (inverted, CanaryState.INVERTED),
        (lambda _: judge_says(""), CanaryState.MUTE),
        (lambda _: judge_says("I like trains"), CanaryState.NONSENSE),
        (lambda _: json.dumps({"choices": []}).encode(), CanaryState.NONSENSE),
    ],
)
async def test_a_sick_judge_is_quarantined_and_released_once_it_is_right(judge, answer, state):
    judge.plain = answer
    async with rounds(judge) as (found, sent):
        await until(lambda: bool(sent))
        report = found.reports()["guard"]
        assert (report.canaries.state, report.quarantined) == (state, True)
        assert sent[0].judges == {"guard": report.canaries.text}
        judge.plain = right
        await until(lambda: sent[-1].judges == {})
        assert found.reports()["guard"].canaries.state is CanaryState.RIGHT


async def test_a_judge_that_refuses_is_quarantined(judge):
    judge.fail(Fault.STATUS, arg=400, times=10**6)
    async with rounds(judge) as (found, sent):
        await until(lambda: bool(sent))
        assert found.reports()["guard"].canaries.state is CanaryState.REFUSING


async def test_a_sick_replica_is_left_out_while_others_are_right(judge, other):
    other.plain = inverted
    async with rounds(judge, other) as (found, _):
        await until(lambda: found.quarantine.replicas == ("j1",) and found.quarantine.judges == {})
        report = found.reports()["guard"]
        assert report.canaries.state is CanaryState.INVERTED
        assert report.canaries.text.endswith("(replica j1)")
        judge.plain = inverted
        await until(lambda: "guard" in found.quarantine.judges)


@pytest.mark.parametrize("trouble", ["frozen", "dead"])
async def test_a_judge_that_does_not_answer_is_told_after_one_question_and_not_quarantined(judge, trouble):
    async with rounds(judge, timeout_s=0.2) as (found, sent):
        await until(lambda: found.reports()["guard"].canaries is not None)
        if trouble == "frozen":
            judge.fail(Fault.HANG, times=10**6)
        else:
            await judge.stop()
        await until(lambda: found.reports()["guard"].canaries.state is CanaryState.SILENT)
        assert found.reports()["guard"].last_failure is not None
        assert sent == []


async def test_a_round_without_answers_takes_nothing_back(judge):
    judge.plain = inverted
    async with rounds(judge, timeout_s=0.1) as (found, sent):
        await until(lambda: bool(sent))
        before = judge.counts.aborted
        judge.fail(Fault.HANG, times=10**6)
        await judge.until(lambda counts: counts.aborted > before + 1)
        assert found.quarantine.judges


async def test_another_engine_under_the_same_name_starts_anew(judge, other):
    judge.plain = inverted
    async with rounds(judge) as (found, _):
        await until(lambda: "guard" in found.quarantine.judges)
        found.take(view(other))
        assert found.quarantine.judges == {}
        await until(lambda: found.reports()["guard"].canaries is not None)
        assert found.reports()["guard"].canaries.state is CanaryState.RIGHT
