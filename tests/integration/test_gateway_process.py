"""The gateway as it is run: master and workers, a control plane that comes and goes, clients of the openai package."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import openai
import psutil
import pytest
from msgspec.structs import replace

from llmgw.schema.link import ViewDelta
from llmgw.schema.model import Role
from llmgw.schema.view import KeysSection, RoutesDelta, View
from llmgw.testing.fake_engine import FakeEngine, Fault
from llmgw.testing.gateway_process import GENEROUS_S, ControlPlane, GatewayProcess, Site, until
from llmgw.testing.gateway_room import KEYS, SECRET, a_replica, a_route, a_view

ASK = [{"role": "user", "content": "hi"}]


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    async with FakeEngine(model="tiny", key="engine-key") as one:
        yield one


@pytest.fixture
async def room(tmp_path, engine) -> AsyncIterator[Callable]:
    async with AsyncExitStack() as stack:

        async def make(**options) -> tuple[GatewayProcess, ControlPlane]:
            view = a_view(a_route(a_replica("r1", engine.url, key="engine-key")))
            site = await stack.enter_async_context(Site(tmp_path, view, **options))
            await site.gateway.knows()
            return site.gateway, site.control

        yield make


async def test_the_openai_package_is_served_plain_streamed_and_in_its_errors(room):
    gateway, _ = await room()
    async with gateway.client() as client:
        plain = await client.chat.completions.create(model="tiny", messages=ASK, max_tokens=3)
        assert (plain.choices[0].message.content, plain.usage.completion_tokens) == (" 1 2 3", 3)
        stream = await client.chat.completions.create(
            model="tiny", messages=ASK, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == " 1 2 3 4 5 6 7 8"
        assert chunks[-1].usage.completion_tokens == 8
        text = await client.completions.create(model="tiny", prompt="x", max_tokens=2, n=2)
        assert [choice.text for choice in text.choices] == [" 1 2", " 1 2"]
        assert [model.id async for model in client.models.list()] == ["tiny"]
        assert (await client.models.retrieve("tiny")).owned_by == "llmgw"
        with pytest.raises(openai.NotFoundError) as missing:
            await client.chat.completions.create(model="nope", messages=ASK)
        assert (missing.value.code, missing.value.request_id is not None) == ("model_not_found", True)
        with pytest.raises(openai.BadRequestError) as wrong:
            await client.embeddings.create(model="tiny", input="x")
        assert wrong.value.code == "wrong_role"
    async with gateway.client("lk_WRONGKEYwrongwrong") as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            await client.models.list()
        assert refused.value.code == "invalid_api_key"
    with openai.OpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key=SECRET, max_retries=0) as client:
        answer = await asyncio.to_thread(client.chat.completions.create, model="tiny", messages=ASK)
        assert answer.choices[0].finish_reason == "stop"


async def test_an_engine_that_dies_in_mid_stream_raises_in_the_openai_package(room, engine):
    gateway, _ = await room()
    engine.fail(Fault.DIE, arg=4)
    async with gateway.client() as client:
        stream = await client.chat.completions.create(model="tiny", messages=ASK, stream=True)
        with pytest.raises(openai.APIError, match="before its answer was complete"):
            async for _ in stream:
                pass


async def test_embeddings_are_served_by_a_model_in_that_role(room, engine):
    gateway, control = await room()
    route = a_route(a_replica("r2", engine.url, key="engine-key"), model="org/vectors", role=Role.EMBED)
    control.send(ViewDelta(routes=RoutesDelta(base=1, version=2, changed=(route,))))
    await gateway.knows("org/vectors")
    async with gateway.client() as client:
        answer = await client.embeddings.create(model="org/vectors", input=["a", "b"])
        assert len(answer.data) == 2
        assert (await client.models.retrieve("org/vectors")).id == "org/vectors"


async def test_a_client_that_leaves_frees_the_engine_within_a_quarter_second(room, engine):
    gateway, _ = await room()
    engine.chunk_s = 0.05
    engine.tokens = 1000
    async with gateway.client() as client:
        stream = await client.chat.completions.create(model="tiny", messages=ASK, stream=True)
        await anext(aiter(stream))
        left = time.monotonic()
        await stream.close()
    await engine.until(lambda counts: counts.aborted == 1)
    assert engine.aborted_at - left < 0.25


async def test_the_gateway_serves_on_while_the_control_plane_is_away_and_after_its_own_restart(room):
    gateway, control = await room()
    await control.stop()
    async with gateway.client() as client:
        assert (await client.chat.completions.create(model="tiny", messages=ASK)).choices
    kept = gateway.data_dir / "view.json"
    await until(kept.exists)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert await gateway.stop() == 0
    await gateway.start()
    async with gateway.client() as client:
        assert (await client.chat.completions.create(model="tiny", messages=ASK)).choices
    await control.start()
    await until(lambda: len(control.hellos) == 2)
    control.send(ViewDelta(view=View(source="c1", keys=KeysSection(version=2, hash_key=KEYS.hash_key))))
    async with gateway.client() as client:
        with pytest.raises(openai.AuthenticationError):
            await asyncio.wait_for(ask_on(client), GENEROUS_S)


async def ask_on(client: openai.AsyncOpenAI) -> None:
    while True:
        await client.models.list()


async def test_demand_and_metrics_reach_the_control_plane_each_second(room):
    gateway, control = await room()
    async with gateway.client() as client:
        for _ in range(3):
            await client.chat.completions.create(model="tiny", messages=ASK)
    await until(lambda: control.reports and control.reports[-1].report.models.get("tiny"))
    await until(lambda: control.reports[-1].report.models["tiny"].arrivals == 3)
    report = control.reports[-1].report
    values = {(one.name, *dict(one.labels).values()): one.value for one in report.metrics}
    assert values["llmgw_gateway_requests", "gateway-1", "tiny", "chat", "200"] == 3
    assert values["llmgw_gateway_tokens", "gateway-1", "tiny", "completion"] == 24
    assert values["llmgw_gateway_key_tokens", "gateway-1", "lk_ABCDEFGH", "tiny", "completion"] == 24


async def test_an_idle_engine_whose_agent_is_silent_is_asked_by_the_gateway_which_reports_that_it_is_there(
    room, engine
):
    _, control = await room()

    def told():
        return control.reports[-1].report.replicas.get("r1") if control.reports else None

    await until(lambda: control.reports)
    assert told() is None, "nobody asked it, the gateway neither"
    silent = replace(a_replica("r1", engine.url, key="engine-key"), silent=True)
    control.send(ViewDelta(routes=RoutesDelta(base=1, version=2, changed=(a_route(silent),))))
    await until(lambda: told() is not None)
    assert told().last_probed_age_s < GENEROUS_S
    assert (told().in_flight, told().last_answered_age_s, engine.counts.started) == (0, None, 0)


async def test_slots_are_never_exceeded_over_all_workers_and_all_of_them_are_used(room, engine):
    gateway, control = await room()
    engine.chunk_s = 0.005
    route = a_route(a_replica("r1", engine.url, key="engine-key", slots=3))
    control.send(ViewDelta(routes=RoutesDelta(base=1, version=2, changed=(route,))))
    await asyncio.sleep(0.3)

    async def one() -> None:
        async with gateway.client() as client:  # a connection each: they spread over the workers
            assert (await client.chat.completions.create(model="tiny", messages=ASK)).choices

    await asyncio.gather(*(one() for _ in range(24)))
    assert engine.counts.most_at_once == 3
    await until(lambda: in_flight(control) == 0)


def in_flight(control: ControlPlane) -> int | None:
    one = control.reports[-1].report.models.get("tiny")
    return one and one.in_flight


async def test_a_killed_worker_breaks_only_its_own_answers_and_is_back_within_two_seconds(room, engine):
    gateway, control = await room()
    engine.chunk_s = 0.02
    engine.tokens = 30
    route = a_route(a_replica("r1", engine.url, key="engine-key", slots=4))
    control.send(ViewDelta(routes=RoutesDelta(base=1, version=2, changed=(route,))))
    victim, other = gateway.workers()

    async def one() -> str:
        async with gateway.client() as client:
            try:
                await client.chat.completions.create(model="tiny", messages=ASK)
            except openai.APIConnectionError:
                return "broken"
            return "fine"

    running = [asyncio.ensure_future(one()) for _ in range(4)]
    await engine.until(lambda counts: counts.started == 4)
    killed = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    later = [asyncio.ensure_future(one()) for _ in range(8)]  # waiting and new connections
    assert set(await asyncio.gather(*later)) == {"fine"}
    await asyncio.gather(*running)
    await until(lambda: len(gateway.workers()) == 2 and victim not in gateway.workers())
    assert time.monotonic() - killed < GENEROUS_S
    assert other in gateway.workers()
    await until(lambda: gateway.log.read_text().count("worker.ready") == 3)
    assert engine.counts.most_at_once <= 4
    assert [await one() for _ in range(4)] == ["fine"] * 4


async def test_sigterm_lets_open_answers_end_and_takes_no_new_ones(room, engine):
    gateway, _ = await room()
    engine.chunk_s = 0.05
    async with gateway.client() as client:
        stream = await client.chat.completions.create(model="tiny", messages=ASK, stream=True)
        await anext(aiter(stream))
        stopping = asyncio.ensure_future(gateway.stop())
        await until(lambda: refuses(gateway.port))
        assert len([chunk async for chunk in stream]) >= 6
        assert await stopping == 0
    assert not any(psutil.pid_exists(pid) for pid in gateway.seen)


def refuses(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def test_a_killed_master_leaves_open_answers_running_and_its_port_free(room, engine):
    gateway, _ = await room()
    engine.chunk_s = 0.05
    workers = gateway.workers()
    async with gateway.client() as client:
        stream = await client.chat.completions.create(model="tiny", messages=ASK, stream=True)
        await anext(aiter(stream))
        gateway.process.kill()
        gateway.process.wait()
        await gateway.start()
        assert len([chunk async for chunk in stream]) >= 6
    await until(lambda: not any(runs(pid) for pid in workers), deadline_s=60)
    async with gateway.client() as client:
        assert (await client.chat.completions.create(model="tiny", messages=ASK)).choices


async def test_a_taken_port_is_named(room, tmp_path):
    gateway, _ = await room()
    second = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "llmgw.cli.main", "gateway", "--config", str(gateway.config)],
        capture_output=True,
        text=True,
        timeout=GENEROUS_S,
        check=False,
    )
    assert second.returncode == 1
    assert f"port {gateway.port} is taken" in second.stderr
    assert "Traceback" not in second.stderr


async def test_the_request_log_holds_no_prompt_and_no_key(room):
    gateway, _ = await room()
    async with gateway.client() as client:
        await client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "a-private-word"}])
    await until(lambda: '"chat"' in gateway.log.read_text())
    text = gateway.log.read_text()
    line = next(json.loads(row) for row in text.splitlines() if "request.done" in row and "chat" in row)
    assert (line["model"], line["status"], line["key"], line["completion_tokens"]) == ("tiny", 200, "lk_ABCDEFGH", 8)
    assert "a-private-word" not in text
    assert SECRET not in text
    assert "engine-key" not in text


def runs(pid: int) -> bool:
    """A zombie counts as gone: whoever inherits orphans here may reap late."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
