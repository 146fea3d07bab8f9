"""What guardrails cost: a real gateway, the model and the judge on real llama.cpp, with and without rules.

    python -m benchmarks.guard_latency [--requests 60] [--tokens 60]

Prints the time to the first and to the last byte of streamed answers, p50 and p99, without rules and with a judge on
the input, on the output and on both; then the gateway's CPU a request without rules and with deterministic rules only,
before an engine that answers at once. The judge is the small hand-made one: real ones take longer, by their size.
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import openai
import psutil

from llmgw.schema.guard.policy import StoredPolicy
from llmgw.schema.guard.rule import Action, Rule, Stage
from llmgw.schema.model import Profile, Role
from llmgw.testing.engine_process import KEY, EngineProcess, shard_for
from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.gateway_process import Site
from llmgw.testing.gateway_room import a_replica, a_route, a_view, policies_of
from llmgw.testing.gguf import write_random_model
from llmgw.testing.guard_policies import policy, rule
from llmgw.testing.judge_model import write_judge_model
from llmgw.testing.lab.report import share

CONTEXT = 16_384
TEXT = "Which flour should I take to bake a dark rye bread, and how long does the dough rest? " * 8
"""About 170 tokens of an ordinary model."""
DETERMINISTIC = (
    rule(name="words", pattern=(r"(?i)project\s+nightfall", r"\bTICKET-\d{6}\b")),
    rule(name="secrets", secrets="all"),
    rule(name="personal", personal_data="all", action=Action.REDACT),
)
RULES: dict[str, tuple[Rule, ...]] = {
    "no rules": (),
    "judge on the input": (rule(name="in", stage=Stage.INPUT, timeout_s=60),),
    "judge on the output": (rule(name="out", stage=Stage.OUTPUT, timeout_s=60),),
    "judge on both": (rule(name="both", timeout_s=60),),
}


async def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="llmgw-guard-") as folder:
        await _latency(Path(folder), options.requests, options.tokens)
        await _cpu(Path(folder), options.requests * 20)
    return 0


async def _latency(folder: Path, requests: int, tokens: int) -> None:
    model, judge = folder / "model.gguf", folder / "judge.gguf"
    write_random_model(model, width=256, layers=8)
    write_judge_model(judge)
    profile = Profile(context=CONTEXT, slots=2, cores=1)
    with (
        EngineProcess(shard_for(model, model="tiny", profile=profile)) as one,
        EngineProcess(shard_for(judge, model="guard", role=Role.GUARD, profile=profile)) as other,
    ):
        urls = (await one.started()).endpoint, (await other.started()).endpoint
        routes = (
            a_route(a_replica("r", urls[0] or "", kind="llamacpp", slots=2, context=CONTEXT, key=KEY)),
            a_route(
                a_replica("j", urls[1] or "", kind="llamacpp", slots=2, context=CONTEXT, key=KEY),
                model="guard",
                role=Role.GUARD,
            ),
        )
        print(f"{'':<22} first byte, ms: p50   p99   last byte, ms: p50   p99   ({requests} requests each)")
        numbers = itertools.count()
        for name, rules in RULES.items():
            stored: tuple[StoredPolicy, ...] = (policy("p", *rules),) if rules else ()
            place = _made(folder / name.replace(" ", "-"))
            site = Site(place, a_view(*routes, policies=policies_of(*stored)), workers=1)
            async with site, site.gateway.client() as client:
                await site.gateway.knows()
                await _timed(client, tokens, number=next(numbers))
                found = [await _timed(client, tokens, number=next(numbers)) for _ in range(requests)]
            first, last = [one for one, _ in found], [one for _, one in found]
            print(f"{name:<22} {_milliseconds(first)}   {_milliseconds(last)}", flush=True)


async def _timed(client: openai.AsyncOpenAI, tokens: int, *, number: int) -> tuple[float, float]:
    """Give seconds to the first and to the last byte of one streamed answer. Each asks anew: caches help nobody."""
    began = time.perf_counter()
    stream = await client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": f"{number} {TEXT}"}], max_tokens=tokens, stream=True
    )
    first = 0.0
    async for chunk in stream:
        if not first and chunk.choices and chunk.choices[0].delta.content:
            first = time.perf_counter() - began
    return first, time.perf_counter() - began


async def _cpu(folder: Path, requests: int) -> None:
    async with FakeEngine(model="tiny") as engine:
        for name, rules in {"no rules": (), "deterministic rules": DETERMINISTIC}.items():
            stored: tuple[StoredPolicy, ...] = (policy("p", *rules),) if rules else ()
            view = a_view(a_route(a_replica("r", engine.url)), policies=policies_of(*stored, judges={}))
            site = Site(_made(folder / f"cpu-{name}".replace(" ", "-")), view, workers=1)
            async with site, site.gateway.client() as client:
                await site.gateway.knows()
                await _ask(client, 20)
                before = _spent(site)
                await _ask(client, requests)
                spent = _spent(site) - before
            print(f"CPU of the gateway a request, {name:<20} {spent / requests * 1e6:7.0f} µs ({len(TEXT)} characters)")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def _ask(client: openai.AsyncOpenAI, requests: int) -> None:
    for _ in range(requests):
        await client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": TEXT}], max_tokens=8)


def _spent(site: Site) -> float:
    """Give seconds of CPU that the gateway's worker used."""
    (worker,) = site.gateway.workers()
    times = psutil.Process(worker).cpu_times()
    return float(times.user + times.system)


def _milliseconds(values: Sequence[float]) -> str:
    return f"{share(values, 0.5) * 1e3:16.1f} {share(values, 0.99) * 1e3:6.1f}"


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
