import aiohttp
import pytest

from llmgw.engines.adapter import Started
from llmgw.engines.probe import NotReady, Ready, check_ready, progress
from llmgw.schema.model import Role
from llmgw.testing.fake_engine import FakeEngine, Fault

KEY = "le_secret"


@pytest.fixture
async def engine():
    async with FakeEngine(model="m", key=KEY) as running:
        yield running


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as client:
        yield client


async def check(session, engine, **changes):
    wanted = {"key": KEY, "model": "m", "role": Role.CHAT, "deadline_s": 5.0, **changes}
    return await check_ready(session, Started(endpoint=engine.url, pid=1), **wanted)


async def test_ready_reads_back_slots_and_context(session, engine):
    engine.slots, engine.context = 3, 512
    assert await check(session, engine) == Ready(slots=3, context=512)


@pytest.mark.parametrize(
    ("role", "path"),
    [
        (Role.CHAT, "/v1/chat/completions"),
        (Role.GUARD, "/v1/completions"),
        (Role.EMBED, "/v1/embeddings"),
    ],
)
async def test_each_role_has_one_canary_of_its_own(role, path, session, engine):
    assert isinstance(await check(session, engine, role=role), Ready)
    assert [request.path for request in engine.requests] == [path]


async def test_a_loading_engine_is_not_ready_yet(session, engine):
    engine.health_status = 503
    assert await check(session, engine) == NotReady(reason="/health answers 503", decisive=False)
    assert engine.requests == []


async def test_another_engine_on_the_port_is_told_apart_by_its_key_and_by_its_name(session, engine):
    assert (await check(session, engine, key="le_other")).decisive
    other = await check(session, engine, model="n")
    assert other == NotReady(reason="the engine serves m, not n", decisive=True)


@pytest.mark.parametrize(("status", "decisive"), [(503, False), (500, True), (400, True)])
async def test_a_canary_that_fails_is_told_with_the_engines_words(status, decisive, session, engine):
    engine.fail(Fault.STATUS, arg=status)
    found = await check(session, engine)
    assert found.decisive is decisive
    assert str(status) in found.reason


async def test_an_engine_that_generates_nothing_is_not_ready(session, engine):
    engine.tokens = 0
    assert await check(session, engine) == NotReady(
        reason="canary: /v1/chat/completions answers 200 with nothing in it", decisive=True
    )


async def test_an_answer_that_is_no_json_is_no_answer(session, engine):
    engine.fail(Fault.MALFORMED)
    assert (await check(session, engine)).decisive


async def test_a_canary_that_hangs_is_given_up_at_the_deadline(session, engine):
    engine.fail(Fault.HANG)
    found = await check(session, engine, deadline_s=0.05)
    assert found == NotReady(reason="no answer from /v1/chat/completions within 0.05 s", decisive=False)


async def test_a_closed_port_is_not_ready(session, engine):
    await engine.stop()
    found = await check(session, engine)
    assert isinstance(found, NotReady)
    assert not found.decisive


async def test_progress_is_read_with_the_key(session, engine):
    await check(session, engine)
    found = await progress(session, engine.url, KEY)
    assert (found.working, found.waiting) == (0, 0)
    assert await progress(session, engine.url, "le_other") is None
    await engine.stop()
    assert await progress(session, engine.url, KEY) is None
