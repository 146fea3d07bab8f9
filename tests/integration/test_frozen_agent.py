"""A node whose agent hangs while its engines answer: seen through a real gateway and a real control plane."""

import asyncio
import json
import socket
import sys

import openai
import pytest

from llmgw.testing.fake_nodes import FakeFleet, NodeGroup
from llmgw.testing.server_process import ServerProcess

WEIGHTS = "/models/shared.gguf"
GRACE_S = 60
"""A new leader declares nobody lost for so long: the test has to outlast it."""


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_node_whose_engines_answer_keeps_its_traffic_and_is_not_lost(tmp_path):
    async with ServerProcess(tmp_path, settings={"unreachable_after_s": 3.0, "lost_after_s": 6.0}) as server:
        fleet = FakeFleet(
            (NodeGroup(kind="cpu-small", count=2, name="n", weights=(WEIGHTS,)),),
            server=server.agent_address,
            token=server.agent_token,
            heartbeat_s=1.0,
        )
        async with fleet as fakes:
            await fakes.joined()
            model = {"name": "m", "source": WEIGHTS, "profile": {"engine": "fake", "cores": 1.0}}
            await server.call("POST", "/api/v1/models", model)
            await server.until(lambda: server.get("/api/v1/summary")["replicas"]["ready"] == 1)
            (replica,) = (await server.call("GET", "/api/v1/replicas"))["replicas"]
            host = replica["shards"][0]["node"]
            async with gateway(server, tmp_path) as client:
                fakes.command(f"freeze {host}")
                row = await asked_until(client, server, lambda: kept(server, host), deadline_s=GRACE_S + 60)
                assert row["state"] == "unreachable"
                (alarm,) = server.get("/api/v1/summary")["alarms"]
                assert (alarm["kind"], alarm["node"]) == ("serves_unreported", host)
                assert [one["id"] for one in (await server.call("GET", "/api/v1/replicas"))["replicas"]] == [
                    replica["id"]
                ]
                fakes.command("heal")
                await server.until(lambda: server.get(f"/api/v1/nodes/{host}")["state"] == "ready")
                assert "alarms" not in server.get("/api/v1/summary")


def kept(server, host):
    row = server.get(f"/api/v1/nodes/{host}")
    return row if row.get("replacement") == "serving" else None


async def asked_until(client, server, found, *, deadline_s):
    """Ask the model twice a second until there is what is looked for; every answer must be good."""
    async with asyncio.timeout(deadline_s):
        while True:
            answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "count"}])
            assert answer.choices[0].message.content
            if (row := await asyncio.to_thread(found)) is not None:
                return row
            await asyncio.sleep(0.5)


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
