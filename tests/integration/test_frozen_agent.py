"""A node whose agent hangs while its engines answer: seen through a real gateway and a real control plane."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys

import openai
import pytest

from llmgw.testing.fake_nodes import FakeFleet, NodeGroup
from llmgw.testing.gguf import write_counting_model
from llmgw.testing.server_process import ServerProcess

WEIGHTS = "/models/shared.gguf"
GRACE_S = 10.0
SETTINGS = {"unreachable_after_s": 3.0, "lost_after_s": 8.0, "lost_grace_s": GRACE_S}
KEPT_S = 4.0
"""How long a node that is not replaced is watched: several turns, each of which might declare it lost."""


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "idle"])
async def test_a_node_whose_engines_answer_is_not_lost_whether_they_are_asked_or_idle(tmp_path, asked):
    async with ServerProcess(tmp_path, settings=SETTINGS) as server:
        group = NodeGroup(kind="cpu-small", count=2, name="n", weights=(WEIGHTS,))
        address, token = server.agent_address, server.agent_token
        async with FakeFleet((group,), server=address, token=token, heartbeat_s=1.0) as fakes:
            await fakes.joined()
            profile = {"engine": "fake", "cores": 1.0}
            await server.call("POST", "/api/v1/models", {"name": "m", "source": WEIGHTS, "profile": profile})
            host, replica = await served(server)
            async with gateway(server, tmp_path) as client, asking(client if asked else None):
                fakes.command(f"freeze {host}")
                await stays(server, host, replica)
                assert asked or fakes.doors.answered() == 0, "nobody asked it for anything"
                fakes.command("heal")
                await server.until(lambda: server.get(f"/api/v1/nodes/{host}").get("state") == "ready")
                assert not server.get("/api/v1/summary").get("alarms")
                fakes.command(f"partition {host}")
                await server.until(lambda: server.get(f"/api/v1/nodes/{host}").get("state") == "lost")


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "idle"])
async def test_an_agents_process_that_is_stopped_takes_nothing_from_its_real_engine(tmp_path, asked):
    async with ServerProcess(tmp_path, settings=SETTINGS) as server, agent(server, tmp_path) as process:
        await server.call("POST", "/api/v1/models", {"name": "m", "source": str(tmp_path / "m.gguf")})
        host, replica = await served(server)
        async with gateway(server, tmp_path) as client:
            assert await answer(client) == " 1 2 3"
            async with asking(client if asked else None):
                os.kill(process.pid, signal.SIGSTOP)
                try:
                    await stays(server, host, replica)
                finally:
                    os.kill(process.pid, signal.SIGCONT)
                await server.until(lambda: server.get(f"/api/v1/nodes/{host}").get("state") == "ready")
            assert await answer(client) == " 1 2 3"
        (row,) = (await server.call("GET", "/api/v1/replicas"))["replicas"]
        assert (row["id"], row["attempt"]) == (replica, 1)


async def served(server):
    """Give node and id of the only replica once it is ready."""
    await server.until(lambda: server.get("/api/v1/summary").get("replicas", {}).get("ready") == 1)
    (row,) = (await server.call("GET", "/api/v1/replicas"))["replicas"]
    return row["shards"][0]["node"], row["id"]


async def stays(server, host, replica):
    """Wait until the node would be replaced if it did not serve; see that it is not, and that an alarm says why."""
    await server.until(lambda: server.get(f"/api/v1/nodes/{host}").get("replacement") == "serving")
    await asyncio.sleep(KEPT_S)
    assert server.get(f"/api/v1/nodes/{host}")["state"] == "unreachable"
    (alarm,) = server.get("/api/v1/summary")["alarms"]
    assert (alarm["kind"], alarm["node"]) == ("serves_unreported", host)
    assert [one["id"] for one in (await server.call("GET", "/api/v1/replicas"))["replicas"]] == [replica]


async def answer(client, last=3):
    messages = [{"role": "user", "content": "count"}]
    given = await client.chat.completions.create(model="m", messages=messages, max_tokens=last)
    return given.choices[0].message.content


@contextlib.asynccontextmanager
async def asking(client):
    """Ask the model twice a second meanwhile, where there is a client; every answer must be good."""

    async def ask():
        while client is not None:
            assert await answer(client)
            await asyncio.sleep(0.5)

    task = asyncio.ensure_future(ask())
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def agent(server, folder):
    """Run a real agent that sees a tiny real model; its engines and its door end with it."""
    write_counting_model(folder / "m.gguf")
    (folder / "token").write_text(server.agent_token)
    config = folder / "agent.toml"
    config.write_text(
        f'node_id = "real"\ndata_dir = "{folder / "agent"}"\nservers = ["{server.agent_address}"]\n'
        f'token_file = "{folder / "token"}"\ndoor_listen = "127.0.0.1:0"\nheartbeat_s = 1.0\n'
    )
    command = (sys.executable, "-m", "llmgw", "agent", "--config", str(config))
    process = await asyncio.create_subprocess_exec(*command)
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()
        stop = await asyncio.create_subprocess_exec(*command, "--stop-engines")
        assert await stop.wait() == 0


class gateway:  # noqa: N801 - used as a context only
    """A gateway process beside the control plane, and a client of it."""

    def __init__(self, server, folder):
        with socket.create_server(("127.0.0.1", 0)) as sock:
            self.port = sock.getsockname()[1]
        self.config = folder / "gateway.toml"
        self.config.write_text(
            f'data_dir = "{folder / "gateway"}"\ncontrol_socket = "{server.data / "hub.sock"}"\n'
            f'listen = "127.0.0.1:{self.port}"\nworkers = 1\n'
        )
        self.key = json.loads((server.data / "credentials.json").read_text())["api_key"]

    async def __aenter__(self):
        command = (sys.executable, "-m", "llmgw", "gateway", "--config", str(self.config))
        self.process = await asyncio.create_subprocess_exec(*command)
        self.client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key=self.key, max_retries=9)
        return self.client

    async def __aexit__(self, *_):
        await self.client.close()
        self.process.terminate()
        await self.process.wait()
