"""Conversations on two real llama.cpp replicas: each turn goes where the turns before it are in the cache."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from llmgw.config.gateway import GatewayConfig
from llmgw.schema.model import Profile, Routing
from llmgw.testing.counting_model import write_counting_model
from llmgw.testing.engine_process import KEY, EngineProcess, shard_for
from llmgw.testing.gateway_room import Room, a_replica, a_route, a_view

pytest.importorskip("xllamacpp", reason="the embedded engine is not installed (extra `cpu`)")

CONTEXT, SLOTS = 4096, 2
CONVERSATIONS, TURNS = 3, 4
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "counting.gguf"
    write_counting_model(path, last=100)
    return path


@contextlib.asynccontextmanager
async def a_room(model, folder, routing: Routing) -> AsyncIterator[Room]:
    with contextlib.ExitStack() as stack:
        shards = [shard_for(model, profile=Profile(context=CONTEXT, slots=SLOTS)) for _ in range(2)]
        engines = [stack.enter_context(EngineProcess(shard)) for shard in shards]
        urls = [(await engine.started()).endpoint for engine in engines]
        replicas = [
            a_replica(f"r{number}", url, kind="llamacpp", slots=SLOTS, context=CONTEXT, key=KEY)
            for number, url in enumerate(urls)
        ]
        config = GatewayConfig(data_dir=str(folder), control_socket=str(folder / "s"), log_level="warning")
        room = Room(a_view(a_route(*replicas, routing=routing)), config)
        await room.open()
        yield room
        await room.close()


async def cached_share(room: Room) -> float:
    """Hold the conversations in turns, and give the share of their prompts' tokens that came from caches."""
    said = [
        [{"role": "user", "content": f"{WORDS[number]} " + "we spoke of this and that " * 20}]
        for number in range(CONVERSATIONS)
    ]
    prompt = cached = 0
    for turn in range(TURNS):
        for number in range(CONVERSATIONS):
            messages = said[(number + turn) % CONVERSATIONS]
            answer = await room.ask(
                "/v1/chat/completions", {"model": "tiny", "messages": messages, "max_tokens": 4, "temperature": 0}
            )
            assert answer.status == 200
            body = answer.json()
            prompt += body["usage"]["prompt_tokens"]
            cached += body["usage"]["prompt_tokens_details"]["cached_tokens"]
            messages += [body["choices"][0]["message"], {"role": "user", "content": f"and {turn} " * 40}]
    return cached / prompt


async def test_turns_of_a_conversation_find_the_turns_before_them_in_the_cache(model, tmp_path):
    async with a_room(model, tmp_path, Routing.PREFIX) as room:
        warm = await cached_share(room)
        report = room.worker.report()
    async with a_room(model, tmp_path, Routing.ROUND_ROBIN) as room:
        rounds = await cached_share(room)
    counted = {
        dict(one.labels).get("direction"): one.value for one in report.metrics if one.name == "llmgw_gateway_tokens"
    }
    assert warm > rounds + 0.05
    assert counted["cached"] > 0
    assert counted["expected"] == pytest.approx(counted["cached"], rel=0.35)
