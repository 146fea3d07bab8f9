"""Backup and restore with real control planes, the real command line, and a node whose engine must not notice."""

import asyncio
import contextlib
import json
import os
import shutil
import sys

import pytest
from msgspec.structs import replace

from llmgw.schema.desired import Mode
from llmgw.schema.engine import EngineInstall, EngineKind, EngineState
from llmgw.schema.weights import Weights, WeightsFormat
from llmgw.testing.fake_agent import FakeAgent
from llmgw.testing.fake_node import FakeNode, fake_facts
from llmgw.testing.postgres import PostgresServer, installed
from llmgw.testing.server_process import ServerProcess

SOURCE = "/models/tiny.gguf"
DEADLINE_S = 90.0


@pytest.fixture
def node():
    facts = replace(
        fake_facts("node-1"),
        weights=(Weights(path=SOURCE, format=WeightsFormat.GGUF, size_bytes=1024, context_length=2048),),
        engines=(EngineInstall(kind=EngineKind.LLAMACPP, version="1", variant="cpu", state=EngineState.READY),),
        engines_probed=True,
    )
    return FakeNode("node-1", facts=facts)


@pytest.fixture
def database():
    binaries = installed()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with PostgresServer(binaries) as server:
        yield server.new_database("restored")


@contextlib.asynccontextmanager
async def agent_of(node, server):
    """Keep the node's agent connected to a control plane, whenever that runs."""

    async def stay():
        while True:
            with contextlib.suppress(Exception):
                await FakeAgent(
                    node, address=server.agent_address, token=server.agent_token, heartbeat_s=0.5, start_s=0.1
                ).run()
            await asyncio.sleep(0.2)

    staying = asyncio.ensure_future(stay())
    try:
        yield
    finally:
        staying.cancel()
        await asyncio.wait([staying])


async def ctl(server, *arguments, token=None):
    """Run the command line; gives its status and what it said."""
    environment = {**os.environ, "LLMGW_API": server.root, "LLMGW_TOKEN": token or server.admin_token}
    if server.root.startswith("https:"):
        environment["LLMGW_CA_FILE"] = str(server.authority)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "llmgw", "ctl", *map(str, arguments)),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    return process.returncode, said.decode()


async def loses_its_store(folder, node, file):
    """Serve a model, back up, let the epoch grow beyond the backup's, and end for good. Gives an operator's token."""
    async with ServerProcess(folder) as server:
        async with agent_of(node, server):
            await server.call("POST", "/api/v1/models", {"name": "chat", "source": SOURCE, "profile": {"cores": 1}})
            await server.until(lambda: server.get("/api/v1/summary")["models"]["satisfied"] == 1)
            status, said = await ctl(server, "backup", file)
            assert status == 0, said
            await server.restart()
            await server.until(lambda: server.get("/api/v1/summary").get("replicas", {}).get("ready") == 1)
        return server.admin_token


async def restore_on(server, node, file, token):
    """The whole story after a loss: refuse, restore, observe, restart, observe, resume."""
    starts, epoch, before = list(node.starts), node.epoch, node.reports()
    orders = []
    node.note = lambda _, state, refused: orders.append((state.mode, state.epoch, refused))
    status, said = await ctl(server, "restore", "--into-new-cluster", file)
    assert status == 0, said
    assert "observing" in said
    async with agent_of(node, server):
        await server.until(lambda: server.get("/api/v1/summary").get("replicas", {}).get("ready") == 1)
        led = node.epoch
        await server.restart()
        await server.until(lambda: node.epoch > led)
        status, said = await ctl(server, "status", token=token)
        assert "observing until `llmgw ctl server resume`" in said, said
        assert {mode for mode, _, refused in orders if refused is None} == {Mode.OBSERVE}
        assert min(of for _, of, refused in orders if refused is None) > epoch
        status, said = await ctl(server, "server", "resume", token=token)
        assert status == 0, said
        await server.until(lambda: any(mode is Mode.ENFORCE for mode, _, _ in orders))
        assert (node.starts, node.reports()) == (starts, before)
        assert (await server.call("GET", "/api/v1/summary")).get("alarms") is None


@pytest.mark.slow
async def test_a_lost_store_is_restored_and_no_engine_notices(tmp_path, node):
    file = tmp_path / "llmgw.backup"
    token = await loses_its_store(tmp_path / "old", node, file)
    async with ServerProcess(tmp_path / "new") as server:
        cut = tmp_path / "cut"
        cut.write_bytes(file.read_bytes()[:-100])
        status, said = await ctl(server, "restore", "--into-new-cluster", cut)
        assert (status, "cut off" in said) == (1, True), said
        await restore_on(server, node, file, token)
        status, said = await ctl(server, "restore", "--into-new-cluster", file)
        assert status == 1, said
        assert "this cluster is not new, it has 1 node (node-1), 1 model (chat), 1 replica" in said


@pytest.mark.slow
async def test_what_sqlite_held_is_restored_on_postgresql(tmp_path, node, database):
    file = tmp_path / "llmgw.backup"
    token = await loses_its_store(tmp_path / "old", node, file)
    async with ServerProcess(tmp_path / "new", settings={"store_url": database}) as server:
        await restore_on(server, node, file, token)


@pytest.mark.slow
async def test_with_mutual_tls_the_lost_authority_comes_back_where_its_secret_is(tmp_path):
    file, settings = tmp_path / "llmgw.backup", {"tls": "on"}
    async with ServerProcess(tmp_path / "old", settings=settings) as old:
        assert (await ctl(old, "backup", file))[0] == 0
        authority = old.authority.read_bytes()
    async with ServerProcess(tmp_path / "stranger", settings=settings) as stranger:
        status, said = await ctl(stranger, "restore", "--into-new-cluster", file)
        assert (status, "authority-secret" in said) == (1, True), said
        assert stranger.runs
    new = ServerProcess(tmp_path / "new", settings=settings)
    new.data.joinpath("identity").mkdir(parents=True, mode=0o700)
    shutil.copy(old.data / "identity" / "authority-secret", new.data / "identity" / "authority-secret")
    async with new:
        assert new.authority.read_bytes() != authority
        status, said = await ctl(new, "restore", "--into-new-cluster", file)
        assert status == 0, said
        assert "start it again" in said
        await new.until(lambda: not new.runs)
        await new.restart()
        assert new.authority.read_bytes() == authority
        assert "observing" in json.dumps(await new.call("GET", "/api/v1/summary"))
