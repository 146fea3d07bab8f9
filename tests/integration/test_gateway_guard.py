"""Guardrails of a gateway as it is run, as its clients and its control plane see them."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator

import openai
import pytest

from llmgw.schema.guard.coverage import Outcome
from llmgw.schema.guard.judge import CanaryState
from llmgw.schema.guard.rule import Action, FailurePolicy, OnFailure, Stage
from llmgw.schema.model import Role
from llmgw.testing.fake_engine import FakeEngine, Fault
from llmgw.testing.gateway_process import Site, until
from llmgw.testing.gateway_room import a_replica, a_route, a_view, policies_of
from llmgw.testing.guard_policies import policy, rule
from llmgw.testing.guard_room import DONE, chunk, guard_room
from llmgw.testing.scripted_judge import WORD, judge_says, proven_judge

PIECES = ["words that harm nobody "] * 60


class Court:
    def __init__(self, site, engine, judge):
        self.site, self.engine, self.judge = site, engine, judge
        self.client = site.gateway.client()

    def judges(self):
        reports = self.site.control.reports
        return reports[-1].report.judges if reports else {}

    async def chat(self, text="hello", **more):
        messages = [{"role": "user", "content": text}]
        return await self.client.chat.completions.create(model="tiny", messages=messages, **more)


@pytest.fixture
async def court(tmp_path) -> AsyncIterator[Court]:
    async with FakeEngine(model="tiny") as engine, FakeEngine(model="guard") as judge:
        judge.plain = proven_judge
        routes = (
            a_route(a_replica("r", engine.url)),
            a_route(a_replica("j", judge.url, slots=4), model="guard", role=Role.GUARD),
        )
        rules = (rule(name="in", stage=Stage.INPUT, timeout_s=5), rule(name="out", stage=Stage.OUTPUT, timeout_s=5))
        async with Site(tmp_path, a_view(*routes, policies=policies_of(policy("p", *rules)))) as site:
            made = Court(site, engine, judge)
            async with made.client:
                yield made


async def test_openai_clients_get_a_typed_error_once_or_a_filtered_end(court):
    court.engine.script = [chunk(piece) for piece in [*PIECES, WORD, *PIECES]] + [chunk("", finish="stop"), DONE]
    with pytest.raises(openai.BadRequestError) as caught:
        await court.chat(WORD)
    assert caught.value.code == "content_policy_violation"
    assert caught.value.body["guardrails"] == ["p/in"]
    assert len(court.engine.requests) <= 1, "clients do not try again what is blocked"

    stream = await court.chat(stream=True)
    seen = [part async for part in stream]
    text = "".join(part.choices[0].delta.content or "" for part in seen)
    assert text.startswith(PIECES[0])
    assert WORD not in text
    assert seen[-1].choices[0].finish_reason == "content_filter"

    court.engine.plain = lambda _: chunk(WORD, finish="stop")[6:].replace(b"delta", b"message")
    answer = await court.chat()
    assert answer.choices[0].finish_reason == "content_filter"
    assert WORD not in answer.choices[0].message.content


@pytest.mark.slow
async def test_a_judge_that_calls_all_safe_is_quarantined_and_its_rules_refuse(court):
    await until(lambda: "guard" in court.judges() and court.judges()["guard"].canaries is not None)
    assert court.judges()["guard"].canaries.state is CanaryState.RIGHT
    await court.chat()
    court.judge.plain = lambda _: judge_says("safe")
    await until(lambda: court.judges()["guard"].quarantined, deadline_s=60)
    report = court.judges()["guard"]
    assert report.canaries.state is CanaryState.ALWAYS_SAFE
    with pytest.raises(openai.InternalServerError) as caught:
        await court.chat()
    assert caught.value.code == "guard_unavailable"
    await until(lambda: any(entry.coverage.outcome is Outcome.UNAVAILABLE for entry in _audit(court.site)))
    court.judge.plain = proven_judge
    await until(lambda: not court.judges()["guard"].quarantined, deadline_s=60)
    await court.chat()


async def test_every_verdict_is_counted_once_by_the_control_plane(court):
    for number in range(6):
        text = WORD if number % 2 else "hello"
        try:
            await court.chat(text)
        except openai.BadRequestError:
            assert number % 2
    key = ("llmgw_guard_verdicts", "p", "in", "input", "block")
    await until(lambda: court.site.control.metrics().get((*key, "unsafe")) == 3)
    await until(lambda: court.site.control.metrics().get((*key, "safe")) == 3)
    await until(lambda: len(_audit(court.site)) == 3)
    assert len({entry.request_id for entry in _audit(court.site)}) == 3


def _audit(site):
    return [entry for one in site.control.reports for entry in one.report.audit]


@pytest.mark.parametrize("opened", [False, True])
async def test_a_recount_under_load_finds_every_record_true(tmp_path, opened):
    """Each request has a number; what the judge said of it is known, and so is what must have become of it."""
    said = defaultdict(list)
    dice = random.Random(7)

    def moody(body):
        prompt = str(body["prompt"])
        number = prompt.partition("number ")[2].split()[0]
        mood = dice.choice(["right", "right", "right", "mute", "nonsense", "broken"])
        said[number].append("unsafe" if mood == "right" and WORD in prompt else mood)
        return {
            "right": judge_says("unsafe\nS9" if WORD in prompt else "safe"),
            "mute": judge_says(""),
            "nonsense": judge_says("trains, I think"),
            "broken": b"{",
        }[mood]

    async with guard_room(tmp_path) as court:
        policies = FailurePolicy(unclear=OnFailure.OPEN) if opened else FailurePolicy()
        court.rules(rule(stage=Stage.INPUT, on_failure=policies), rule(name="f", action=Action.FLAG, pattern="hello"))
        court.judge.plain = moody
        court.judge.chunk_s = 0.001

        async def one(number):
            text = f"number {number} {WORD if number % 3 == 0 else 'hello'}"
            return number, await court.room.chat(text=text, stream=number % 2 == 0)

        answers = await asyncio.gather(*(one(number) for number in range(150)))
        moods = {number: (said.get(str(number)) or ["overloaded"]) for number in range(150)}
        assert all(len(one) == 1 for one in moods.values()), "each is asked about once"
        for number, answer in answers:
            (mood,) = moods[number]
            failed = mood not in {"right", "unsafe"}
            passes = opened and mood != "overloaded"
            assert answer.status == (400 if mood == "unsafe" else 503 if failed and not passes else 200), (number, mood)
            told = answer.headers[b"x-llmgw-guard"].decode()
            assert f"failed={int(failed)}; bypassed={int(failed and passes)}" in told, (number, mood)
        each = [mood for (mood,) in moods.values()]
        unsafe, busy = each.count("unsafe"), each.count("overloaded")
        unclear = 150 - unsafe - busy - each.count("right")
        counted = court.counted
        await until(lambda: sum(counted("llmgw_guard_requests", outcome=one.value) for one in Outcome) == 150)
        assert counted("llmgw_guard_verdicts", rule="r", state="error") == unclear + busy
        assert counted("llmgw_guard_verdicts", rule="r", state="unsafe") == unsafe
        assert counted("llmgw_guard_bypasses") == (unclear if opened else 0)
        assert counted("llmgw_guard_judge_failures", failure="unclear") == unclear
        assert counted("llmgw_guard_judge_failures", failure="overloaded") == busy
        outcomes = [entry.coverage.outcome for entry in court.audit()]
        assert outcomes.count(Outcome.BLOCKED) == unsafe
        assert outcomes.count(Outcome.UNAVAILABLE) == busy + (0 if opened else unclear)


async def test_a_crowd_at_a_slow_judge_is_told_to_come_back_and_nobody_is_called_safe(tmp_path):
    async with guard_room(tmp_path) as court:
        court.rules(rule(stage=Stage.INPUT, timeout_s=0.5))
        court.judge.chunk_s = 0.05
        court.judge.tokens = 4
        answers = await asyncio.gather(*(court.room.chat(text=WORD) for _ in range(200)))
        statuses = {answer.status for answer in answers}
        assert statuses <= {400, 503}
        busy = [answer for answer in answers if answer.status == 503]
        assert busy
        assert all(answer.headers[b"x-should-retry"] == b"true" for answer in busy)
        failures = {entry.coverage.scans[0].failure for entry in court.audit()} - {None}
        assert failures <= {"overloaded", "timeout"}
        court.judge.fail(Fault.DROP, times=10**6)
        assert (await court.room.chat()).status == 503
