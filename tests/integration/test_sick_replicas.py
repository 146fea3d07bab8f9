"""One of three replicas is sick, under load: clients hear of it only where their stream had begun on it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import openai
import pytest

from llmgw.testing.fake_engine import FakeEngine, Fault
from llmgw.testing.gateway_process import Site, until
from llmgw.testing.gateway_room import a_replica, a_route, a_view

CLIENTS, SECONDS = 8, 2.5
ALWAYS = 10**9


class Fleet:
    def __init__(self, site: Site, engines: list[FakeEngine]) -> None:
        self.site, self.engines = site, engines
        self.sick = engines[0]
        self.seen: Counter[str] = Counter()
        self.broken: list[dict] = []

    async def load(self, make_sick) -> None:
        """Ask from many clients at once; a third of the way in, one replica falls sick."""
        ending = asyncio.get_running_loop().time() + SECONDS
        async with self.site.gateway.client() as client:
            asking = [asyncio.ensure_future(self._ask(client, number, ending)) for number in range(CLIENTS)]
            await asyncio.sleep(SECONDS / 3)
            await make_sick(self.sick)
            await asyncio.gather(*asking)

    async def _ask(self, client: openai.AsyncOpenAI, number: int, ending: float) -> None:
        turn = 0
        while asyncio.get_running_loop().time() < ending:
            turn += 1
            text = f"client {number}, question {turn}"
            stream = (number + turn) % 2 == 0
            try:
                await self._one(client, text, stream=stream)
                self.seen["answered"] += 1
            except openai.APIError as error:
                self.seen["stream broke" if stream else f"plain: {error}"] += 1
                if stream and isinstance(error.body, dict):
                    self.broken.append(error.body)

    async def _one(self, client: openai.AsyncOpenAI, text: str, *, stream: bool) -> None:
        asked = {"model": "tiny", "messages": [{"role": "user", "content": text}]}
        if not stream:
            answer = await client.with_options(max_retries=0).chat.completions.create(**asked)
            assert answer.choices[0].finish_reason
            return
        chunks = await client.with_options(max_retries=0).chat.completions.create(**asked, stream=True)
        assert [chunk async for chunk in chunks][-1].choices[0].finish_reason


@pytest.fixture
async def fleet(tmp_path) -> AsyncIterator[Fleet]:
    async with FakeEngine(model="tiny") as one, FakeEngine(model="tiny") as two, FakeEngine(model="tiny") as three:
        engines = [one, two, three]
        for engine in engines:
            engine.tokens, engine.chunk_s = 6, 0.005
        replicas = [a_replica(f"r{number}", engine.url) for number, engine in enumerate(engines)]
        async with Site(tmp_path, a_view(a_route(*replicas)), workers=2) as site:
            await site.gateway.knows()
            yield Fleet(site, engines)


def ordered(fault: Fault, arg: int | None = None):
    async def order(engine: FakeEngine) -> None:
        engine.fail(fault, arg=arg, times=ALWAYS)

    return order


async def killed(engine: FakeEngine) -> None:
    await engine.stop()


@pytest.mark.parametrize(
    "sickness",
    [
        killed,
        ordered(Fault.STATUS, 500),
        pytest.param(ordered(Fault.STATUS, 503), marks=pytest.mark.slow),
        ordered(Fault.STATUS, 429),
        pytest.param(ordered(Fault.DROP), marks=pytest.mark.slow),
    ],
    ids=["killed", "500", "503", "429", "reset before headers"],
)
async def test_clients_hear_nothing_of_a_replica_that_is_sick_before_its_answer(fleet, sickness):
    await fleet.load(sickness)
    broke = fleet.seen.pop("stream broke", 0)
    assert set(fleet.seen) == {"answered"}
    assert broke <= (CLIENTS if sickness is killed else 0), "only streams that had begun on one that was killed"
    assert fleet.seen["answered"] > 100


async def test_a_stream_that_had_begun_ends_with_an_error_clients_understand_and_nothing_else_breaks(fleet):
    await fleet.load(ordered(Fault.DIE, 3))
    broke = fleet.seen.pop("stream broke", 0)
    assert set(fleet.seen) == {"answered"}
    assert 0 < broke == len(fleet.broken)
    assert {error["code"] for error in fleet.broken} == {"upstream_error"}
    assert fleet.seen["answered"] > 4 * broke


async def test_a_storm_of_clients_errors_leaves_no_replica_out(fleet):
    for engine in fleet.engines:
        engine.fail(Fault.STATUS, arg=400, times=200)
    async with fleet.site.gateway.client() as client:
        for number in range(120):
            with pytest.raises(openai.BadRequestError):
                await client.chat.completions.create(
                    model="tiny", messages=[{"role": "user", "content": f"wrong {number}"}]
                )
        for engine in fleet.engines:
            engine.fail(None)
        before = [engine.counts.finished for engine in fleet.engines]
        for number in range(60):
            await client.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": f"right {number}"}]
            )
    assert all(engine.counts.finished > was + 5 for engine, was in zip(fleet.engines, before, strict=True))


async def test_one_that_is_well_again_gets_its_share_back(fleet):
    fleet.sick.fail(Fault.STATUS, arg=503, times=6)
    async with fleet.site.gateway.client() as client:

        async def ask(number: int) -> None:
            await client.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": f"hello {number}"}]
            )

        await asyncio.gather(*(ask(number) for number in range(60)))
        was = fleet.sick.counts.finished

        async def back() -> bool:
            await asyncio.gather(*(ask(number) for number in range(12)))
            return fleet.sick.counts.finished > was + 10

        async with asyncio.timeout(30):
            while not await back():
                pass
    await until(lambda: not fleet.site.control.metrics().get(("llmgw_gateway_in_flight", "tiny")))
