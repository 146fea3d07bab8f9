import asyncio
import contextlib
import hashlib

import pytest

from llmgw.agent.discover import Discovery
from llmgw.config.agent import AgentConfig
from llmgw.config.load import load
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


@pytest.mark.parametrize(
    ("address", "listens", "reached"),
    [
        ("10.1.2.3", "0.0.0.0:8802", "10.1.2.3:8802"),
        ("10.1.2.3", "https://0.0.0.0:8802", "https://10.1.2.3:8802"),
        ("fd00::1", "https://[::]:8802", "https://[fd00::1]:8802"),
        ("10.1.2.3", "https://10.9.9.9:8802", "https://10.9.9.9:8802"),
    ],
)
async def test_a_door_on_all_addresses_is_reached_by_the_nodes_own(tmp_path, address, listens, reached):
    async with looking(config(tmp_path, address=address)) as (discovery, _):
        discovery.door_at(listens)
        assert discovery.facts.door == reached


async def test_fabrics_of_the_configuration_file_are_told_with_what_is_wrong(tmp_path):
    file = tmp_path / "agent.toml"
    file.write_text(
        f'data_dir = "{tmp_path}/data"\nservers = ["127.0.0.1:8801"]\ntoken_file = "{tmp_path}/token"\n'
        '[[fabrics]]\nname = "ib-a"\nhcas = ["mlx5_absent"]\nrate_gbps = 400\n'
    )
    async with looking(load(AgentConfig, file)) as (discovery, _):
        (fabric,) = discovery.facts.fabrics
        assert (fabric.name, fabric.hcas, fabric.rate_gbps) == ("ib-a", ("mlx5_absent",), 400.0)
        assert fabric.warnings[0].startswith("mlx5_absent is not on this node")


async def test_digests_are_told_once_they_are_made(tmp_path):
    path = tmp_path / "m.gguf"
    write_random_model(path, width=2, layers=1)
    async with looking(config(tmp_path, weights_dirs=(str(tmp_path),))) as (discovery, _):
        await eventually(lambda: discovery.facts.weights[0].digest)
        assert discovery.facts.weights[0].digest == hashlib.sha256(path.read_bytes()).hexdigest()


async def test_a_folder_that_is_not_there_is_told(tmp_path):
    folder = str(tmp_path / "none")
    async with looking(config(tmp_path, weights_dirs=(folder,))) as (discovery, _):
        (told,) = discovery.facts.weights_folders
        assert (told.path, told.problems) == (folder, (f"there is no folder {folder}",))
