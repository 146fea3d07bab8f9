"""The gateway in front of a real llama.cpp: what clients get is what the engine would have told them itself."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import openai
import pytest

from llmgw.config.gateway import GatewayConfig
from llmgw.schema.model import Profile
from llmgw.testing.counting_model import write_counting_model
from llmgw.testing.engine_process import KEY, EngineProcess, shard_for
from llmgw.testing.gateway_room import SECRET, Room, a_replica, a_route, a_view

pytest.importorskip("xllamacpp", reason="the embedded engine is not installed (extra `cpu`)")

ASK = [{"role": "user", "content": "hi"}]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
CONTEXT, SLOTS = 1024, 2


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "counting.gguf"
    write_counting_model(path, last=100)
    return path


@pytest.fixture
async def room(model, tmp_path) -> AsyncIterator[tuple[Room, str]]:
    shard = shard_for(model, profile=Profile(context=CONTEXT, slots=SLOTS))
    with EngineProcess(shard) as engine:
        url = (await engine.started()).endpoint
        replica = a_replica("r1", url, kind="llamacpp", slots=SLOTS, context=CONTEXT, key=KEY)
        config = GatewayConfig(data_dir=str(tmp_path), control_socket=str(tmp_path / "s"), log_level="warning")
        made = Room(a_view(a_route(replica)), config)
        await made.open()
        yield made, url
        await made.close()


async def direct(url: str, path: str, body: dict) -> tuple[int, dict]:
    headers = {"authorization": f"Bearer {KEY}"}
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body, headers=headers) as answer:
        return answer.status, await answer.json()


def comparable(answer: dict) -> dict:
    """Leave out what differs from one run to the next."""
    kept = json.loads(json.dumps(answer))
    for name in ("id", "created"):
        assert kept.pop(name)
    assert kept.pop("timings").keys()
    kept["usage"].pop("prompt_tokens_details")  # the second run finds the prompt in the cache
    return kept


@pytest.mark.parametrize(
    ("path", "more"),
    [
        (CHAT, {"max_tokens": 7}),
        (CHAT, {}),
        (CHAT, {"max_tokens": 3, "n": 2}),
        (CHAT, {"max_tokens": 3, "logprobs": True, "top_logprobs": 2, "temperature": 0}),
        (CHAT, {"stop": [" 1"]}),
        (CHAT, {"stop": [" 5"]}),
        (TEXT, {"max_tokens": 5}),
        (TEXT, {"max_tokens": 2, "n": 2}),
        (TEXT, {"max_tokens": 2, "logprobs": 1, "temperature": 0}),
        (TEXT, {"prompt": ["a", "b 4"], "max_tokens": 2}),
    ],
)
async def test_a_plain_answer_equals_the_engines_own(room, path, more):
    gateway, url = room
    body = {"model": "tiny", **({"messages": ASK} if path == CHAT else {"prompt": "x 4"}), **more}
    ours = await gateway.ask(path, body)
    status, own = await direct(url, path, body)
    assert (ours.status, status) == (200, 200)
    assert comparable(ours.json()) == comparable(own)


@pytest.mark.parametrize(
    "more",
    [
        {"messages": [{"role": "user", "content": "word " * 3000}]},
        {"messages": "no list"},
        {"n": 9},
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_of_the_engine_is_its_own_status_and_words(room, more, stream):
    gateway, url = room
    body = {"model": "tiny", "messages": ASK, "stream": stream, **more}
    ours = await gateway.ask(CHAT, body)
    status, own = await direct(url, CHAT, body)
    assert ours.status == status >= 400
    assert ours.error["message"] == own["error"]["message"]
    assert set(ours.error) >= {"message", "type", "param", "code"}


HOSTILE = [
    {"max_tokens": 2**31 - 1, "stop": [" 3"]},
    {"temperature": 1e308, "top_p": -1, "min_p": 9, "top_k": 10**18},
    {"logit_bias": {"999999999": 100}, "logprobs": True, "top_logprobs": 10**9},
    {"stop": ["a"] * 5000},
    {"messages": [{"role": "x" * 10_000, "content": "\x00"}]},
    {"tools": [{"type": "function"}]},
    {"tools": "x"},
    {"reasoning_format": "x"},
    {"grammar": "root ::= " + "(" * 5000},
    {"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}},
    {"id_slot": 99, "n_keep": -(10**9), "n_predict": -(10**15), "cache_prompt": "x"},
    {"repeat_last_n": 2**31 - 1},
    {"dry_penalty_last_n": 2**31 - 1, "dry_multiplier": 1},
    {"n": 128},
]


async def test_hostile_values_are_answered_as_the_clients_fault_and_do_no_harm(room):
    gateway, _ = room
    for more in HOSTILE:
        answer = await gateway.ask(CHAT, {"model": "tiny", "messages": ASK, "max_tokens": 2, **more})
        assert answer.status in (200, 400), (more, answer.body)
    nested = b'{"model":"tiny","messages":[],"tools":%b%b}' % (b"[" * 900, b"]" * 900)
    assert (await gateway.ask(CHAT, nested)).status in (400, 500)  # the engine's own words are megabytes long
    assert (await gateway.chat(max_tokens=3)).json()["usage"]["completion_tokens"] == 3


async def test_the_openai_package_streams_and_counts(room):
    gateway, _ = room
    async with openai.AsyncOpenAI(
        base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key=SECRET, max_retries=0
    ) as client:
        stream = await client.chat.completions.create(
            model="tiny", messages=ASK, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == "".join(f" {number}" for number in range(1, 101))
        assert chunks[-1].usage.completion_tokens == 101
        without = await client.chat.completions.create(model="tiny", messages=ASK, stream=True)
        assert all(chunk.choices for chunk in [chunk async for chunk in without])


async def test_more_requests_than_slots_are_all_answered(room):
    gateway, _ = room
    answers = await asyncio.gather(*(gateway.chat() for _ in range(10)))
    assert [answer.json()["usage"]["completion_tokens"] for answer in answers] == [101] * 10
