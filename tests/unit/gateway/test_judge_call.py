import asyncio

import pytest

from llmgw.core.guard.judges.adapter import Label, Reading, Unclear
from llmgw.core.guard.judges.registry import adapter
from llmgw.core.guard.judges.reply import NoAnswer
from llmgw.core.guard.outlook import Said, View
from llmgw.gateway.judge_call import JudgeCaller
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.guard.rule import FailureKind
from llmgw.schema.model import Role
from llmgw.testing.fake_engine import Fault
from llmgw.testing.gateway_room import a_replica, a_route, until
from llmgw.testing.scripted_judge import WORD, judge_says, scripted_judge

JUDGE = adapter(JudgeFamily.LLAMA_GUARD_3_1B)
VIEW = View((Said(by_agent=False, text="hello"),))


def guard(*engines, **options):
    replicas = [a_replica(f"r{number}", engine.url, **options) for number, engine in enumerate(engines)]
    return a_route(*replicas, model="guard", role=Role.GUARD)


@pytest.fixture
async def ask(room):
    """Open a room with these routes and ask its judge."""
    callers = []

    async def asked(*routes, view=VIEW, timeout_s=5.0, caller=None):
        if caller is None:
            worker = (await room(*routes)).worker
            caller = JudgeCaller(worker.view, worker.admission, worker.upstreams)
            callers.append(caller)
        return await caller.ask("guard", JUDGE, view, timeout_s=timeout_s)

    asked.callers = callers
    yield asked
    for caller in callers:
        caller.close()


def failure(reply):
    assert isinstance(reply.outcome, NoAnswer)
    return reply.outcome.failure


async def test_a_judge_is_asked_over_its_raw_route_by_our_own_prompt(ask, engine):
    engine.plain = scripted_judge
    reply = await ask(guard(engine, key="secret"), view=View((Said(by_agent=False, text=f"some {WORD}"),)))
    assert isinstance(reply.outcome, Reading)
    assert (reply.outcome.label, reply.outcome.codes) == (Label.UNSAFE, ("S9",))
    assert reply.version == "llama-guard-3-1b/r0"
    (request,) = engine.requests
    assert request.path == "/v1/completions"
    assert request.headers["authorization"] == "Bearer secret"


async def test_a_judge_that_is_absent_or_a_plain_chat_model_is_not_asked(ask, engine):
    assert failure(await ask()) is FailureKind.MISCONFIGURED
    assert failure(await ask(a_route(a_replica("r", engine.url), model="guard"))) is FailureKind.MISCONFIGURED
    assert engine.requests == []


async def test_a_judge_without_a_replica_is_unreachable(ask):
    assert failure(await ask(guard())) is FailureKind.UNREACHABLE


@pytest.mark.parametrize(
    ("fault", "arg", "kind"),
    [
        (Fault.DROP, 0, FailureKind.UNREACHABLE),
        (Fault.DIE, 0, FailureKind.UNREACHABLE),
        (Fault.STATUS, 401, FailureKind.UNREACHABLE),
        (Fault.STATUS, 500, FailureKind.UNREACHABLE),
        (Fault.STATUS, 503, FailureKind.UNREACHABLE),
        (Fault.STATUS, 429, FailureKind.OVERLOADED),
        (Fault.STATUS, 400, FailureKind.MISCONFIGURED),
        (Fault.STATUS, 404, FailureKind.MISCONFIGURED),
    ],
)
async def test_each_failure_is_of_its_kind(ask, engine, fault, arg, kind):
    engine.plain = scripted_judge
    engine.fail(fault, arg=arg, times=9)
    assert failure(await ask(guard(engine))) is kind


async def test_another_replica_is_asked_where_one_cannot_be_reached(ask, engines):
    first, second = await engines(2)
    for one in (first, second):
        one.plain = scripted_judge
    route = guard(first, second)
    await first.stop()
    for _ in range(3):
        assert isinstance((await ask(route)).outcome, Reading)


async def test_a_judge_that_hangs_is_given_up_in_time_and_keeps_its_slot_until_it_lets_go(ask, engine):
    engine.plain = scripted_judge
    engine.fail(Fault.HANG)
    assert failure(await ask(guard(engine), timeout_s=0.2)) is FailureKind.TIMEOUT
    await engine.until(lambda counts: counts.aborted == 1)


async def test_a_question_that_never_got_a_slot_was_kept_out_by_others(ask, engine):
    engine.plain = scripted_judge
    engine.fail(Fault.HANG)
    first = asyncio.ensure_future(ask(guard(engine, slots=1), timeout_s=60))
    await until(lambda: engine.open_requests == 1)
    (caller,) = ask.callers
    assert failure(await ask(caller=caller, timeout_s=0.2)) is FailureKind.OVERLOADED
    first.cancel()


async def test_a_question_whose_asker_leaves_is_given_up_at_once(ask, engine):
    engine.fail(Fault.HANG)
    asking = asyncio.ensure_future(ask(guard(engine), timeout_s=60))
    await until(lambda: engine.open_requests == 1)
    asking.cancel()
    await engine.until(lambda counts: counts.aborted == 1)


@pytest.mark.parametrize(
    "body", [b"no JSON", b"", b"[]", b'{"choices": []}', b"[" * 100_000, judge_says(""), judge_says("maybe"), b"\xff"]
)
async def test_an_answer_that_is_no_verdict_is_unclear(ask, engine, body):
    engine.plain = lambda _: body
    assert isinstance((await ask(guard(engine))).outcome, Unclear)


async def test_an_empty_answer_is_told_from_nonsense(ask, engine):
    engine.plain = lambda _: judge_says("\n")
    assert (await ask(guard(engine))).empty


async def test_the_least_context_of_all_replicas_counts(room, engine):
    route = a_route(
        a_replica("a", engine.url, context=8192),
        a_replica("b", engine.url, context=4096),
        a_replica("c", engine.url),
        model="guard",
        role=Role.GUARD,
    )
    worker = (await room(route)).worker
    caller = JudgeCaller(worker.view, worker.admission, worker.upstreams)
    assert caller.context("guard") == 4096
    assert caller.context("other") is None
