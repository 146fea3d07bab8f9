"""What every engine's adapter must keep to, run with the real engine on tiny models."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import psutil
import pytest

from llmgw.engines.adapter import Adapter, Started
from llmgw.engines.probe import NotReady, Ready, check_ready, progress
from llmgw.engines.registry import ADAPTERS
from llmgw.schema.engine import EngineKind
from llmgw.schema.model import Profile, Role
from llmgw.testing.engine_process import KEY, EngineProcess, shard_for
from llmgw.testing.gguf import write_counting_model, write_random_model
from llmgw.weights.gguf import inspect

MODEL = "org/counting-1"
COUNTED = "".join(f" {number}" for number in range(1, 501))


class LlamaCppCase:
    """llama.cpp on hand-written GGUF files."""

    kind = EngineKind.LLAMACPP
    no_spare_memory = {"cache_ram_mib": "0"}  # noqa: RUF012 - never changed

    def good(self, folder: Path) -> Path:
        write_counting_model(folder / "good.gguf")
        return folder / "good.gguf"

    def slow(self, folder: Path) -> Path:
        """About 5 seconds for all 500 numbers."""
        write_counting_model(folder / "slow.gguf", zero_layers=8, ff_width=8192)
        return folder / "slow.gguf"

    def embedding(self, folder: Path) -> Path:
        write_random_model(folder / "embedding.gguf", width=32)
        return folder / "embedding.gguf"

    def broken(self, folder: Path) -> dict[str, tuple[Path, str, bool]]:
        """By name: a file, words its failure must hold, whether trying again may help."""
        good = self.good(folder).read_bytes()
        damaged = bytearray(good)
        damaged[-4000:-3000] = b"\xff" * 1000
        contents = {
            "lfs": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer", False),
            "text": (b"hello, this is not a model", "not GGUF: it begins with 'hell'", False),
            "empty": (b"", "is empty, or it is a folder", False),
            "truncated": (good[:300_000], "cut short: tensor blk.0", False),
            "header": (good[:3_000], "cut short or damaged within its header", False),
            "damaged": (bytes(damaged), "damaged within tensor output.weight", False),
            "architecture": (good.replace(b"llama", b"lldma"), "cannot run models of architecture lldma", False),
        }
        cases = {}
        for name, (content, told, heals) in contents.items():
            path = folder / f"{name}.gguf"
            path.write_bytes(content)
            cases[name] = (path, told, heals)
        absent = folder / "absent.gguf"
        return {**cases, "absent": (absent, f"No weights at {absent} on this node", True)}

    broken_names = ("lfs", "text", "empty", "truncated", "header", "damaged", "architecture", "absent")


CASES = (LlamaCppCase(),)


@pytest.fixture(params=CASES, ids=lambda case: case.kind.value)
def case(request):
    if ADAPTERS[request.param.kind].version() is None:
        pytest.skip(f"{request.param.kind.value} is not installed here")
    return request.param


@pytest.fixture
def adapter(case) -> Adapter:
    return ADAPTERS[case.kind]


@pytest.fixture
def start(case):
    """Start engines that are gone after the test."""
    running: list[EngineProcess] = []

    def begin(path: Path | str, **shard) -> EngineProcess:
        profile = shard.pop("profile", Profile(engine=case.kind, context=1024, slots=2))
        running.append(EngineProcess(shard_for(path, model=MODEL, profile=profile, **shard)))
        return running[-1]

    yield begin
    for engine in running:
        engine.close()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as client:
        yield client


def test_there_is_a_case_for_every_adapter():
    assert {one.kind for one in CASES} == set(ADAPTERS)


async def ready(session, started: Started, *, key: str = KEY, model: str = MODEL, role: Role = Role.CHAT):
    return await check_ready(session, started, key=key, model=model, role=role, deadline_s=20)


async def stream(session: aiohttp.ClientSession, started: Started, *, seen: Callable[[str], None] = lambda _: None):
    """Ask for the whole count, streamed; give the text, the finish reason and the usage."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "count"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 900,
    }
    text, finish, usage = "", None, None
    url, headers = f"{started.endpoint}/v1/chat/completions", {"Authorization": f"Bearer {KEY}"}
    async with session.post(url, json=body, headers=headers) as answer:
        assert answer.status == 200
        async for line in answer.content:
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                finish = choice["finish_reason"] or finish
                text += choice["delta"].get("content") or ""
                seen(text)
    return text, finish, usage


async def counting(session, started: Started) -> tuple[asyncio.Task, asyncio.Event]:
    """Start the count and give it once the first numbers came."""
    begun = asyncio.Event()
    task = asyncio.create_task(stream(session, started, seen=lambda text: text and begun.set()))
    async with asyncio.timeout(20):
        await begun.wait()
    return task, begun


# Start ------------------------------------------------------------------------------------------------


async def test_an_engine_says_where_it_listens_and_passes_its_canary(case, start, session, tmp_path):
    engine = start(case.good(tmp_path))
    started = await engine.started()
    assert started.pid == engine.process.pid
    assert started.version == engine.adapter.version()
    assert await ready(session, started) == Ready(slots=2, context=1024)


async def test_an_engine_listens_on_loopback_only(case, start, tmp_path):
    engine = start(case.good(tmp_path))
    await engine.started()
    sockets = psutil.Process(engine.process.pid).net_connections(kind="inet")
    assert [one.laddr.ip for one in sockets if one.status == psutil.CONN_LISTEN] == ["127.0.0.1"]


async def test_argv_names_the_shard_and_neither_argv_nor_log_nor_environment_holds_the_key(case, start, tmp_path):
    engine = start(case.good(tmp_path))
    await engine.started()
    process = psutil.Process(engine.process.pid)
    assert engine.shard.id in process.cmdline()
    assert KEY not in " ".join(process.cmdline())
    assert KEY not in str(process.environ())
    assert KEY not in engine.log_text
    assert KEY not in repr(engine.adapter.launch(engine.shard, log_verbosity=2))


async def test_an_engine_outlives_the_process_that_started_it(case, adapter, session, tmp_path):
    launch = adapter.launch(shard_for(case.good(tmp_path), model=MODEL), log_verbosity=2)
    log = tmp_path / "log"
    parent = (
        "import json, subprocess, sys\n"
        "argv, stdin, log = json.load(sys.stdin)\n"
        "out = open(log, 'ab')\n"
        "engine = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True)\n"
        "engine.stdin.write(stdin.encode()); engine.stdin.close(); print(engine.pid)\n"
    )
    orders = json.dumps([launch.argv, launch.stdin.decode(), str(log)])
    argv = [sys.executable, "-W", "ignore", "-c", parent]
    done = await asyncio.to_thread(subprocess.run, argv, input=orders, capture_output=True, text=True, check=True)
    pid = int(done.stdout)
    try:
        started = await asyncio.to_thread(wait_for_ready_line, adapter, log)
        assert isinstance(await ready(session, started), Ready)
    finally:
        os.kill(pid, signal.SIGKILL)


def wait_for_ready_line(adapter: Adapter, log: Path) -> Started:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        started = adapter.ready_line(log.read_text())
        if started is not None:
            return started
        time.sleep(0.02)
    raise AssertionError(log.read_text())


async def test_a_strangers_engine_on_the_port_is_not_taken_for_ours(case, start, session, tmp_path):
    started = await start(case.good(tmp_path)).started()
    refused = await ready(session, started, key="le_somebodyelses")
    assert refused == NotReady(reason="another engine answers on this port: it refuses our key", decisive=True)
    other = await ready(session, started, model="org/other")
    assert other == NotReady(reason=f"the engine serves {MODEL}, not org/other", decisive=True)


async def test_an_engine_that_is_gone_is_not_ready_and_may_come_back(case, start, session, tmp_path):
    engine = start(case.good(tmp_path))
    started = await engine.started()
    engine.close()
    found = await ready(session, started)
    assert isinstance(found, NotReady)
    assert not found.decisive


async def test_a_frozen_engine_is_not_ready_and_recovers(case, start, session, tmp_path):
    engine = start(case.good(tmp_path))
    started = await engine.started()
    os.kill(engine.process.pid, signal.SIGSTOP)
    frozen = await check_ready(session, started, key=KEY, model=MODEL, role=Role.CHAT, deadline_s=0.3)
    assert frozen == NotReady(reason="no answer from /health within 0.3 s", decisive=False)
    assert await progress(session, started.endpoint, KEY, deadline_s=0.3) is None
    os.kill(engine.process.pid, signal.SIGCONT)
    assert isinstance(await ready(session, started), Ready)


async def test_an_embedding_model_is_ready_by_an_embedding_and_takes_a_text_as_long_as_its_context(
    case, start, session, tmp_path
):
    started = await start(case.embedding(tmp_path), role=Role.EMBED).started()
    assert isinstance(await ready(session, started, role=Role.EMBED), Ready)
    body = {"model": MODEL, "input": ["x" * 1000, "short"]}
    headers = {"Authorization": f"Bearer {KEY}"}
    async with session.post(f"{started.endpoint}/v1/embeddings", json=body, headers=headers) as answer:
        assert answer.status == 200
        vectors = [one["embedding"] for one in (await answer.json())["data"]]
    assert [len(vector) for vector in vectors] == [32, 32]
    assert vectors[0] != vectors[1]


@pytest.mark.parametrize("role", list(Role))
async def test_each_role_starts_and_its_canary_answers(role, case, start, session, tmp_path):
    path = case.good(tmp_path) if role in {Role.CHAT, Role.GUARD} else case.embedding(tmp_path)
    started = await start(path, role=role).started()
    assert isinstance(await ready(session, started, role=role), Ready)


# Serving ----------------------------------------------------------------------------------------------


async def test_a_streamed_answer_is_whole(case, start, session, tmp_path):
    started = await start(case.good(tmp_path)).started()
    text, finish, usage = await stream(session, started)
    assert text == COUNTED
    assert finish == "stop"
    assert usage["completion_tokens"] == 501


async def test_progress_moves_while_an_answer_is_made_and_an_idle_engine_is_no_stuck_one(
    case, start, session, tmp_path
):
    started = await start(case.slow(tmp_path)).started()
    idle = await progress(session, started.endpoint, KEY)
    again = await progress(session, started.endpoint, KEY)
    assert idle.working == 0
    assert again.moved_since(idle)
    task, _ = await counting(session, started)
    first = await progress(session, started.endpoint, KEY)
    await asyncio.sleep(0.3)
    second = await progress(session, started.endpoint, KEY)
    task.cancel()
    assert first.working == second.working == 1
    assert second.decodes > first.decodes
    assert second.moved_since(first)


async def test_the_claim_covers_what_the_engine_takes(case, adapter, start, session, tmp_path):
    path = case.slow(tmp_path)
    # No room for displaced prompts: it would be claimed, and not taken here.
    profile = Profile(engine=case.kind, context=1024, slots=2, flags=case.no_spare_memory)
    engine = start(path, profile=profile)
    started = await engine.started()
    await ready(session, started)
    taken = psutil.Process(engine.process.pid).memory_full_info().pss
    claimed = adapter.claim(engine.shard.profile, inspect(str(path))).memory_bytes
    assert claimed is not None
    assert claimed / 4 < taken < claimed


# End --------------------------------------------------------------------------------------------------


async def test_term_ends_an_idle_engine_with_status_0_at_once(case, start, tmp_path):
    engine = start(case.good(tmp_path))
    await engine.started()
    before = time.monotonic()
    engine.process.terminate()
    assert await engine.ended() == 0
    assert time.monotonic() - before < 2


async def test_term_lets_open_answers_end(case, start, session, tmp_path):
    engine = start(case.slow(tmp_path))
    task, _ = await counting(session, await engine.started())
    engine.process.terminate()
    text, finish, _ = await task
    assert (text, finish) == (COUNTED, "stop")
    assert await engine.ended() == 0


async def test_a_second_term_ends_at_once(case, start, session, tmp_path):
    engine = start(case.slow(tmp_path))
    task, _ = await counting(session, await engine.started())
    engine.process.terminate()
    await asyncio.sleep(0.2)
    assert engine.process.poll() is None
    before = time.monotonic()
    engine.process.terminate()
    assert await engine.ended() == 0
    assert time.monotonic() - before < 1
    with pytest.raises(aiohttp.ClientError):
        await task


async def test_an_answer_that_outlasts_the_grace_is_broken_off(case, start, session, tmp_path):
    engine = start(case.slow(tmp_path), grace_s=0.5)
    task, _ = await counting(session, await engine.started())
    before = time.monotonic()
    engine.process.terminate()
    assert await engine.ended() == 0
    assert time.monotonic() - before < 3
    with pytest.raises(aiohttp.ClientError):
        await task


def test_term_before_it_is_ready_ends_it_at_once(case, adapter):
    launch = adapter.launch(shard_for("/nowhere"), log_verbosity=2)
    with subprocess.Popen(launch.argv, stdin=subprocess.PIPE) as process:
        process.terminate()
        assert process.wait(10) == -signal.SIGTERM


async def test_kill_is_told_in_words_and_counts_as_a_death_that_heals(case, start, session, tmp_path):
    engine = start(case.good(tmp_path))
    await ready(session, await engine.started())
    engine.process.kill()
    assert await engine.ended() == -signal.SIGKILL
    death = engine.failure()
    assert death.status == -signal.SIGKILL
    assert not death.asked
    assert death.heals
    assert "SIGKILL" in death.cause


# Failed starts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LlamaCppCase.broken_names)
async def test_broken_weights_fail_the_start_with_words(name, case, start, tmp_path):
    path, told, heals = case.broken(tmp_path)[name]
    engine = start(path)
    status = await engine.ended()
    death = engine.failure()
    assert told in death.cause
    assert death.heals is heals
    assert death.counts
    assert death.status == status == 11
    assert not death.asked
    assert engine.adapter.ready_line(engine.log_text) is None
    assert death.log_line in engine.log_text


async def test_a_folder_for_weights_fails_with_words(case, start, tmp_path):
    engine = start(tmp_path)
    assert await engine.ended() == 11
    assert "it is a folder" in engine.failure().cause


async def test_a_source_that_is_no_path_fails_with_words(case, start):
    engine = start("hf:org/model@main")
    assert await engine.ended() == 11
    assert engine.failure().cause == "The source hf:org/model@main is no path on this node, and nothing fetches it"


async def test_a_chat_template_with_a_syntax_error_fails_the_start_with_words(case, start, tmp_path):
    profile = Profile(engine=case.kind, context=512, slots=1, chat_template="{% for")
    with pytest.raises(Exception, match="chat_template"):
        start(case.good(tmp_path), profile=profile)
    broken = Profile(engine=case.kind, context=512, slots=1, chat_template="{% for %}{{ messages }}")
    engine = start(case.good(tmp_path), profile=broken)
    assert await engine.ended() == 11
    assert engine.failure().cause.startswith("The chat template is not valid Jinja")
    assert not engine.failure().heals


@pytest.mark.parametrize("kept", [0, 1, 40, -1])
def test_a_start_whose_settings_end_before_their_end_heals_and_does_not_count(kept, case, adapter):
    launch = adapter.launch(shard_for("/nowhere"), log_verbosity=2)
    done = subprocess.run(launch.argv, input=launch.stdin[:kept], capture_output=True, check=False)
    death = adapter.failure(done.returncode, done.stdout.decode())
    assert death.status == 11
    assert death.cause == "The start was cut short: the agent ended before the engine knew what to run"
    assert (death.heals, death.counts) == (True, False)


def test_settings_of_another_version_do_not_heal(case, adapter):
    launch = adapter.launch(shard_for("/nowhere"), log_verbosity=2)
    done = subprocess.run(launch.argv, input=b'{"shard": "x"}', capture_output=True, check=False)
    death = adapter.failure(done.returncode, done.stdout.decode())
    assert death.status == 11
    assert "not what this version expects" in death.cause
    assert (death.heals, death.counts) == (False, True)


async def test_a_starting_engine_says_what_it_does(case, start, tmp_path):
    engine = start(case.slow(tmp_path))
    await engine.started()
    assert "loading" in engine.adapter.starting(engine.log_text)
