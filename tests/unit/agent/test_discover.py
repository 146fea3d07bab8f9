import asyncio
import contextlib
import threading

import msgspec
import pytest

from llmgw.agent import discover
from llmgw.agent.discover import Discovery
from llmgw.config.agent import AgentConfig
from llmgw.schema.weights import Storage
from llmgw.testing.gguf import write_random_model


def config(tmp_path, **more):
    return AgentConfig(
        data_dir=str(tmp_path / "data"),
        servers=("127.0.0.1:8801",),
        token_file=str(tmp_path / "token"),
        discover_s=0.05,
        **more,
    )


@contextlib.asynccontextmanager
async def looking(settings):
    changes = []
    discovery = Discovery(settings, lambda: changes.append(1))
    task = asyncio.create_task(discovery.run())
    try:
        async with asyncio.timeout(20):
            await discovery.looked.wait()
        yield discovery, changes
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def eventually(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


async def test_a_node_not_asked_to_look_says_so(tmp_path):
    async with looking(config(tmp_path)) as (discovery, _):
        assert discovery.facts.weights is None
        assert discovery.facts.storage is None


async def test_a_node_that_looked_and_has_none_says_that(tmp_path):
    async with looking(config(tmp_path, weights_dirs=(str(tmp_path / "empty"),))) as (discovery, _):
        assert discovery.facts.weights == ()
        assert discovery.facts.engines_probed


async def test_new_weights_are_found_and_told(tmp_path):
    async with looking(config(tmp_path, weights_dirs=(str(tmp_path),))) as (discovery, changes):
        told = len(changes)
        write_random_model(tmp_path / "m.gguf", width=2, layers=1)
        await eventually(lambda: discovery.facts.weights)
        assert len(changes) > told


async def test_facts_that_stay_the_same_are_no_news(tmp_path):
    async with looking(config(tmp_path, weights_dirs=(str(tmp_path),))) as (_, changes):
        told = len(changes)
        await asyncio.sleep(0.3)
        assert len(changes) == told


async def test_what_the_configuration_states_is_told_as_it_is(tmp_path):
    settings = config(tmp_path, address="10.1.2.3", labels={"rack": "a"})
    async with looking(settings) as (discovery, _):
        assert discovery.facts.address == "10.1.2.3"
        assert discovery.facts.labels == {"rack": "a"}
        discovery.door_at("10.1.2.3:8802")
        assert discovery.facts.door == "10.1.2.3:8802"


async def test_a_folder_that_does_not_answer_keeps_what_was_seen_and_holds_nothing_up(tmp_path, monkeypatch):
    monkeypatch.setattr(discover, "FOLDER_S", 0.2)
    fast, slow = tmp_path / "fast", tmp_path / "slow"
    for folder in (fast, slow):
        folder.mkdir()
        write_random_model(folder / "m.gguf", width=2, layers=1)
    settings = config(tmp_path, weights_dirs=(str(fast), str(slow)))
    async with looking(settings) as (discovery, _):
        assert len(discovery.facts.weights) == 2
        release = threading.Event()
        scans = []

        def scan(folders):
            scans.append(folders)
            release.wait(20)
            return ()

        discovery._folders[1]._shelf.scan = scan
        write_random_model(fast / "n.gguf", width=2, layers=1)
        await eventually(lambda: len(discovery.facts.weights) == 3)
        assert len(scans) == 1, "a look that blocks is not started again"
        release.set()
        await eventually(lambda: len(discovery.facts.weights) == 2)


@pytest.mark.parametrize(("moved", "told"), [(900, 1000), (1100, 1000), (890, 890), (1200, 1200)])
async def test_free_space_is_news_only_when_it_moves_by_a_hundredth(tmp_path, moved, told):
    discovery = Discovery(config(tmp_path), lambda: None)
    before = Storage(mount="/m", source="/dev/a", fstype="ext4", total_bytes=10_100, free_bytes=1000)
    discovery._tell(storage=(before,))
    assert discovery._steady(msgspec.structs.replace(before, free_bytes=moved)).free_bytes == told


async def test_space_that_became_unknown_is_told(tmp_path):
    discovery = Discovery(config(tmp_path), lambda: None)
    before = Storage(mount="/m", source="/dev/a", fstype="ext4", total_bytes=100, free_bytes=50)
    discovery._tell(storage=(before,))
    silent = msgspec.structs.replace(before, free_bytes=None, problem="does not answer")
    assert discovery._steady(silent) == silent
