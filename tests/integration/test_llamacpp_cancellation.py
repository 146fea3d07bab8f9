"""Clients of a real llama.cpp that leave: decoding slots are free within a second, prefills count until they end."""

import asyncio
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from llmgw.config.gateway import GatewayConfig
from llmgw.schema.model import Profile, Role
from llmgw.testing.counting_model import write_counting_model
from llmgw.testing.engine_process import KEY, EngineProcess, shard_for
from llmgw.testing.gateway_room import Room, a_replica, a_route, a_view, until
from llmgw.testing.random_model import write_random_model

pytest.importorskip("xllamacpp", reason="the embedded engine is not installed (extra `cpu`)")

CHAT, TEXT, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
SLOTS = 2
GENEROUS_S = 30.0


class Bench:
    """A gateway worker in front of one engine."""

    def __init__(self, room: Room, url: str) -> None:
        self.room, self.url = room, url

    @property
    def in_flight(self) -> int:
        return self.room.worker.counters.in_flight["tiny"]

    async def busy(self) -> int:
        """Look at the slots: a test may."""
        headers = {"authorization": f"Bearer {KEY}"}
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/slots", headers=headers) as answer:
            return sum(slot["is_processing"] for slot in await answer.json())

    async def until_busy(self, wanted: Callable[[int], bool], *, deadline_s: float) -> None:
        async with asyncio.timeout(deadline_s):
            while not wanted(await self.busy()):  # noqa: ASYNC110 -- the slots are in another process
                await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def slow_counter(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "counting.gguf"
    write_counting_model(path, last=2000, zero_layers=12, ff_width=8192)
    return path


@pytest.fixture(scope="module")
def slow_reader(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "random.gguf"
    write_random_model(path, width=256, layers=8, context=8192)
    return path


@pytest.fixture
async def bench(tmp_path) -> AsyncIterator[Callable]:
    rooms: list[Room] = []
    engines: list[EngineProcess] = []

    async def make(model, *, slots: int = SLOTS, role: Role = Role.CHAT) -> Bench:
        engines.append(EngineProcess(shard_for(model, role=role, profile=Profile(context=8192, slots=slots))))
        url = (await engines[-1].started()).endpoint
        replica = a_replica("r1", url, kind="llamacpp", slots=slots, context=8192 // slots, key=KEY)
        config = GatewayConfig(data_dir=str(tmp_path), control_socket=str(tmp_path / "s"), log_level="warning")
        rooms.append(Room(a_view(a_route(replica, role=role)), config))
        await rooms[-1].open()
        return Bench(rooms[-1], url)

    yield make
    for room in rooms:
        await room.close()
    for engine in engines:
        engine.close()


def body(path: str, *, stream: bool, prompt: str = "hi") -> dict[str, object]:
    if path == EMBED:
        return {"model": "tiny", "input": prompt}
    asked = {"messages": [{"role": "user", "content": prompt}]} if path == CHAT else {"prompt": prompt}
    return {"model": "tiny", "stream": stream, "max_tokens": 2000, **asked}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_a_decoding_slot_is_free_within_a_second(bench, slow_counter, path, stream):
    here = await bench(slow_counter)
    beside = asyncio.ensure_future(here.room.start(CHAT, body(CHAT, stream=True)))
    await beside  # another stream that runs on: llama.cpp has no quiet second then
    asking = asyncio.ensure_future(here.room.ask(path, body(path, stream=stream)))
    await asyncio.sleep(1.0)
    assert (await here.busy(), here.in_flight) == (2, 2)
    asking.cancel()
    await here.until_busy(lambda slots: slots == 1, deadline_s=1.0)
    await until(lambda: here.in_flight == 1)
    beside.result().close()
    await here.until_busy(lambda slots: slots == 0, deadline_s=1.0)
    await until(lambda: here.in_flight == 0)


@pytest.mark.parametrize(("path", "role", "words"), [(TEXT, Role.CHAT, 1000), (EMBED, Role.EMBED, 200)])
async def test_a_prefill_counts_as_busy_until_the_engine_ends_it(bench, slow_reader, path, role, words):
    here = await bench(slow_reader, slots=1, role=role)
    asking = asyncio.ensure_future(here.room.ask(path, body(path, stream=True, prompt="word " * words)))
    await here.until_busy(lambda slots: slots == 1, deadline_s=GENEROUS_S)
    asking.cancel()
    await asyncio.wait({asking})
    next_one = asyncio.ensure_future(here.room.ask(path, {**body(path, stream=False), "max_tokens": 1}))
    await asyncio.sleep(0.1)
    assert (here.in_flight, here.room.worker.admission.waiting("tiny")) == (2, 1)
    # Then it lets go, and the next one is served. Had it been sent at once, it would have waited in the engine.
    assert (await asyncio.wait_for(next_one, GENEROUS_S)).status == 200
    await until(lambda: here.in_flight == 0)


async def test_after_many_clients_that_left_all_slots_are_there(bench, slow_counter):
    here = await bench(slow_counter)
    asking = []
    for number in range(40):
        path = (CHAT, TEXT)[number % 2]
        asking.append(asyncio.ensure_future(here.room.ask(path, body(path, stream=number % 3 == 0))))
    for number in range(40):
        await asyncio.sleep(0.05)
        asking[(number * 7) % 40].cancel()
        assert await here.busy() <= SLOTS
    await asyncio.wait(asking)
    await until(lambda: here.in_flight == 0, deadline_s=GENEROUS_S)
    await here.until_busy(lambda slots: slots == 0, deadline_s=1.0)
    answers = await asyncio.gather(
        *(here.room.ask(TEXT, {**body(TEXT, stream=False), "max_tokens": 3}) for _ in range(6))
    )
    assert [answer.status for answer in answers] == [200] * 6
