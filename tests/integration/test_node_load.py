"""What a real agent measures, by API, metrics and page of a real control plane; and that it vanishes with the agent."""

import asyncio
import contextlib
import subprocess
import sys
import time

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from llmgw.testing.gguf import write_counting_model
from llmgw.testing.server_process import ServerProcess

MEASURED = {
    "llmgw_node_cpu_utilization_percent",
    "llmgw_node_load",
    "llmgw_node_load_age_seconds",
    "llmgw_node_memory_used_bytes",
    "llmgw_node_memory_available_bytes",
    "llmgw_node_pressure_percent",
    "llmgw_shard_cpu_cores",
    "llmgw_shard_memory_bytes",
    "llmgw_shard_memory_anonymous_bytes",
}
HAS = {"llmgw_node_cpus", "llmgw_node_memory_bytes"}


class Machine:
    """A node with a real agent and one real engine."""

    def __init__(self, root, server):
        self.root, self.server = root, server
        self.model = root / "weights" / "counting.gguf"
        self.agent = None

    async def start(self):
        self.model.parent.mkdir(parents=True)
        write_counting_model(self.model)
        (self.root / "token").write_text(self.server.agent_token)
        (self.root / "agent.toml").write_text(
            f"""
            node_id = "n1"
            data_dir = "{self.root}/data"
            servers = ["{self.server.agent_address}"]
            token_file = "{self.root}/token"
            weights_dirs = ["{self.root}/weights"]
            door_listen = "127.0.0.1:0"
            heartbeat_s = 1.0
            """
        )
        with (self.root / "agent.log").open("a") as log:
            self.agent = subprocess.Popen(self._argv(), stdout=log, stderr=log)  # noqa: ASYNC220 - returns at once
        await self.server.until(lambda: self.node().get("connected"))
        await self.server.call("POST", "/api/v1/models", {"name": "counting", "source": str(self.model)})
        await self.server.until(lambda: any((one["load"] or {}).get("cpu_cores") is not None for one in self.shards()))

    def stop_agent(self):
        """End the agent; its engine runs on."""
        self.agent.terminate()
        self.agent.wait(30)

    def stop_all(self):
        if self.agent is not None and self.agent.poll() is None:
            self.stop_agent()
        subprocess.run([*self._argv(), "--stop-engines"], timeout=60, check=True, capture_output=True)

    def node(self):
        return self.server.get("/api/v1/nodes/n1")

    def shards(self):
        return self.node().get("shards", [])

    def _argv(self):
        return [sys.executable, "-m", "llmgw", "agent", "--config", str(self.root / "agent.toml")]


@pytest.fixture
async def machine(tmp_path):
    async with ServerProcess(tmp_path / "control") as server:
        machine = Machine(tmp_path / "node", server)
        try:
            await machine.start()
            yield machine
        finally:
            await asyncio.to_thread(machine.stop_all)


async def metrics(server):
    headers = {"authorization": f"Bearer {server.admin_token}"}
    async with aiohttp.ClientSession(headers=headers) as session, session.get(f"{server.root}/metrics") as answer:
        assert answer.status == 200
        families = list(text_string_to_metric_families(await answer.text()))
    return {sample.name: sample for family in families for sample in family.samples}


@contextlib.asynccontextmanager
async def logged_in(server):
    """Open the console as a browser does."""
    jar = aiohttp.CookieJar(unsafe=True)  # addresses instead of names are unsafe to it
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        form, origin = {"token": server.admin_token}, {"origin": server.root}
        async with session.post(f"{server.root}/login", data=form, headers=origin) as answer:
            assert answer.status == 200
        yield session


@pytest.mark.slow  # a control plane, an agent and an engine to start; parts of it are in tests/integration/agent
async def test_a_real_engines_use_is_told_with_its_model_and_replica(machine):
    row = machine.node()
    assert row["load"]["age_s"] < 30
    assert (
        row["load"]["memory_used_bytes"] + row["load"]["memory_available_bytes"] <= 1.01 * row["facts"]["memory_bytes"]
    )
    (shard,) = row["shards"]
    assert (shard["model"], shard["shard"]) == ("counting", f"{shard['replica']}.0")
    assert 5_000_000 < shard["load"]["memory_bytes"] < 2_000_000_000
    assert shard["load"]["memory_anonymous_bytes"] <= shard["load"]["memory_bytes"]
    (replica,) = machine.server.get("/api/v1/replicas")["replicas"]
    assert replica["shards"][0]["load"]["memory_kind"] == "pss"
    found = await metrics(machine.server)
    assert found.keys() >= HAS | (MEASURED - {"llmgw_node_pressure_percent"})
    labels = {"node": "n1", "model": "counting", "replica": shard["replica"], "shard": shard["shard"]}
    assert found["llmgw_shard_memory_bytes"].labels == labels


@pytest.mark.slow  # a real minute
async def test_a_stopped_agents_figures_vanish_after_a_minute_and_what_the_node_has_stays(machine):
    server = machine.server
    async with logged_in(server) as console:

        async def page():
            async with console.get(f"{server.root}/overview/live") as answer:
                assert answer.status == 200
                return await answer.text()

        assert 'aria-label="Memory of n1"' in await page()
        machine.stop_agent()
        stopped, ages = time.monotonic(), []
        while (load := machine.node()["load"]) is not None:
            ages.append(load["age_s"])
            assert time.monotonic() - stopped < 90
            await asyncio.sleep(1.0)
        gone_after_s = time.monotonic() - stopped
        assert ages == sorted(ages), "what was measured once is never told again as if it were new"
        assert ages[-1] <= 60.0
        assert 50 < gone_after_s < 75
        row = machine.node()
        assert [one["load"] for one in row["shards"]] == [None], "the engine runs on, unmeasured"
        assert row["facts"]["host"]["cores_usable"] > 0
        assert row["facts"]["memory_bytes"] > 0
        assert server.get("/api/v1/nodes")["nodes"][0]["load"] is None
        (replica,) = server.get("/api/v1/replicas")["replicas"]
        assert replica["shards"][0]["load"] is None
        found = await metrics(server)
        assert not found.keys() & MEASURED
        assert found.keys() >= HAS
        text = await page()
        assert 'aria-label="Memory of n1"' not in text
        assert 'id="node-n1"' in text
