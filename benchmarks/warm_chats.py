"""Chats of several turns on two real llama.cpp replicas of the demo model: by prefix, and going round.

    python -m benchmarks.warm_chats [--chats 4] [--turns 6]

Prints for each way of choosing the share of prompt tokens that came from a cache, as the engines say, and the time to
the first token of all turns but the first. Chats take turns, as people do, each round in another order. Every way gets
fresh engines, and each engine slots for half of the chats: there is just enough room for all of them.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import openai

from llmgw.schema.model import Profile, Routing
from llmgw.testing.engine_process import KEY, EngineProcess, shard_for
from llmgw.testing.gateway_process import Site
from llmgw.testing.gateway_room import a_replica, a_route, a_view
from llmgw.up.preflight import demo_weights

CONTEXT = 4096
OPENING = (
    "I bake bread at home and write down what I do. Today: {number} loaves of rye, a sourdough of two days, water at"
    " thirty degrees, salt last. The oven takes an hour to heat. "
)
QUESTION = "And what should I change when the kitchen is {degrees} degrees warm and the flour is coarser than usual?"

Message = dict[str, str]


async def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chats", type=int, default=4)
    parser.add_argument("--turns", type=int, default=6)
    options = parser.parse_args()
    weights = demo_weights()
    if weights is None:
        print("the demo model is not installed: make up installs it", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="llmgw-warm-") as folder:
        for routing in (Routing.ROUND_ROBIN, Routing.LEAST_LOADED, Routing.PREFIX):
            place = Path(folder) / routing.value
            place.mkdir()
            share, waits = await measured(place, weights, routing, chats=options.chats, turns=options.turns)
            waits.sort()
            mean, worst = 1000 * sum(waits) / len(waits), 1000 * waits[-1]
            print(
                f"{routing.value:<13} {share:6.1%} of prompt tokens from caches; first token after"
                f" {mean:.0f} ms on average, {1000 * waits[len(waits) // 2]:.0f} p50, {worst:.0f} at most"
                f" ({len(waits)} turns)",
                flush=True,
            )
    return 0


async def measured(
    folder: Path, weights: Path, routing: Routing, *, chats: int, turns: int
) -> tuple[float, list[float]]:
    """Give the share of prompt tokens from caches, and the seconds to the first token of each later turn."""
    slots = max(1, chats // 2)
    profile = Profile(context=CONTEXT, slots=slots, cores=1)
    async with contextlib.AsyncExitStack() as stack:
        engines = [
            stack.enter_context(EngineProcess(shard_for(weights, model="demo", profile=profile))) for _ in range(2)
        ]
        urls = [(await engine.started()).endpoint or "" for engine in engines]
        replicas = [
            a_replica(f"r{number}", url, kind="llamacpp", slots=slots, context=CONTEXT, key=KEY)
            for number, url in enumerate(urls)
        ]
        site = await stack.enter_async_context(
            Site(folder, a_view(a_route(*replicas, model="demo", routing=routing)), workers=2)
        )
        await site.gateway.knows("demo")
        client = await stack.enter_async_context(site.gateway.client())
        return await _chat(client, chats=chats, turns=turns)


async def _chat(client: openai.AsyncOpenAI, *, chats: int, turns: int) -> tuple[float, list[float]]:
    dice = random.Random(7)
    said: list[list[Message]] = [
        [{"role": "user", "content": OPENING.format(number=number + 2) * 4}] for number in range(chats)
    ]
    waits: list[float] = []
    prompt = cached = 0
    for turn in range(turns):
        for messages in dice.sample(said, chats):
            first, answer, usage = await _turn(client, messages)
            if turn:
                waits.append(first)
                prompt += usage.prompt_tokens
                cached += usage.prompt_tokens_details.cached_tokens
            question = QUESTION.format(degrees=18 + turn)
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": question}]
    return cached / prompt, waits


async def _turn(client: openai.AsyncOpenAI, messages: list[Message]) -> tuple[float, str, Any]:
    began = time.perf_counter()
    first, words, usage = 0.0, [], None
    stream = await client.chat.completions.create(
        model="demo",
        messages=messages,  # type: ignore[arg-type]  # plain dictionaries are what it takes
        max_tokens=32,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            first = first or time.perf_counter() - began
            words.append(chunk.choices[0].delta.content)
        usage = chunk.usage or usage
    return first, "".join(words), usage


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
