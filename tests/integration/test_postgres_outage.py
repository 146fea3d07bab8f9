"""A whole node on PostgreSQL: real server, gateway, agent and engine; the database freezes, crashes, comes back."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import aiohttp
import psutil
import pytest

from llmgw.testing.gguf import write_counting_model
from llmgw.testing.postgres import PASSWORD, PostgresServer, installed
from llmgw.testing.server_process import ServerProcess

MODEL = "org/counting"
OUTAGE_S = 20.0
"""Far longer than the lease: it lapses, and must come back by a late renewal."""
TOLD_S = 2.0
"""Within which the API says that the store is away."""
DEADLINE_S = 90.0

pytestmark = pytest.mark.timeout(300)


class Cluster:
    """Control plane, gateway and agent, each started from its own TOML file."""

    def __init__(self, folder: Path, postgres: PostgresServer, server: ServerProcess) -> None:
        self.folder = folder
        self.postgres = postgres
        self.server = server
        self.base = ""
        self.key = ""
        self._processes: list[asyncio.subprocess.Process] = []
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30))

    async def start(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"
        self.key = json.loads((self.server.data / "credentials.json").read_text())["api_key"]
        weights = self.folder / "weights"
        weights.mkdir()
        write_counting_model(weights / "counting.gguf", last=60)
        await self._run(
            "gateway",
            data_dir=str(self.folder / "gateway"),
            control_socket=str(self.server.data / "hub.sock"),
            listen=f"127.0.0.1:{port}",
            workers=1,
        )
        await self._run(
            "agent",
            data_dir=str(self.folder / "agent"),
            servers=[self.server.agent_address],
            token_file=str(self.server.data / "agent-token"),
            node_id="n1",
            weights_dirs=[str(weights)],
            door_listen="127.0.0.1:0",
            heartbeat_s=1.0,
        )
        await self.server.call(
            "POST",
            "/api/v1/models",
            {"name": MODEL, "source": str(weights / "counting.gguf"), "profile": {"slots": 4, "context": 512}},
        )
        await self.server.until(lambda: self.server.get("/api/v1/summary")["replicas"]["ready"] == 1)
        await until(self.count)

    async def close(self) -> None:
        await self._session.close()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            await process.wait()
        stop = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "llmgw", "agent", "--stop-engines", "--config", str(self.folder / "agent.toml")
        )
        assert await stop.wait() == 0

    async def count(self) -> None:
        """One request through the gateway: the model counts on from what it is given."""
        body = {"model": MODEL, "prompt": " 4", "max_tokens": 8}
        headers = {"Authorization": f"Bearer {self.key}"}
        async with self._session.post(f"{self.base}/v1/completions", json=body, headers=headers) as answer:
            text = await answer.text()
            assert answer.status == 200, text
        assert json.loads(text)["choices"][0]["text"] == " 5 6 7 8 9 10 11 12"

    async def api(self, method: str, path: str, body: object = None) -> tuple[int, dict, float]:
        """Status, body and seconds of a call of the admin API."""
        started = time.monotonic()
        headers = {"Authorization": f"Bearer {self.server.admin_token}"}
        async with self._session.request(method, f"{self.server.root}{path}", json=body, headers=headers) as answer:
            found = json.loads(await answer.read())
        return answer.status, found, time.monotonic() - started

    async def change(self) -> tuple[int, dict, float]:
        return await self.api("POST", "/api/v1/keys", {"name": "somebody"})

    async def running(self) -> dict[str, object]:
        """All that an outage of the database must not change."""
        _, replicas, _ = await self.api("GET", "/api/v1/replicas")
        (replica,) = replicas["replicas"]
        _, leader, _ = await self.api("GET", "/leader")
        return {
            "leader": leader,
            "replica": (replica["id"], replica["state"], replica["attempt"], replica.get("restarts", [])),
            "shards": [(shard["id"], shard["pid"], shard["endpoint"]) for shard in replica["shards"]],
            "server": self.server.pid,
        }

    @contextlib.asynccontextmanager
    async def traffic(self) -> AsyncIterator["Traffic"]:
        traffic = Traffic(self)
        tasks = [asyncio.ensure_future(traffic.run()) for _ in range(3)]
        try:
            await traffic.more(10)
            yield traffic
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, process: str, **settings: object) -> None:
        config = self.folder / f"{process}.toml"
        config.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
        with (self.folder / f"{process}.log").open("ab") as log:
            self._processes.append(
                await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "llmgw", process, "--config", str(config), stdout=log, stderr=log
                )
            )


class Traffic:
    """Requests one after the other, and every failure."""

    def __init__(self, cluster: Cluster) -> None:
        self.answered = 0
        self.failures: list[str] = []
        self._cluster = cluster

    async def run(self) -> None:
        while True:
            try:
                await self._cluster.count()
                self.answered += 1
            except Exception as error:  # noqa: BLE001 - every failure of a client is a finding, whatever its kind
                self.failures.append(repr(error))
            await asyncio.sleep(0.05)

    async def more(self, count: int) -> None:
        goal = self.answered + count
        async with asyncio.timeout(DEADLINE_S):
            while self.answered < goal:  # noqa: ASYNC110 - polls a counter of three tasks
                await asyncio.sleep(0.02)


async def until(succeeds):
    """Call until it raises nothing; gives the value."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            with contextlib.suppress(AssertionError, aiohttp.ClientError):
                return await succeeds()
            await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def postgres():
    binaries = installed()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with PostgresServer(binaries) as server:
        yield server


@pytest.fixture
async def cluster(postgres, tmp_path, monkeypatch):
    pytest.importorskip("xllamacpp", reason="the extra `cpu` is not installed")
    monkeypatch.setenv("LLMGW_STORE_PASSWORD", PASSWORD)
    name = f"outage_{os.getpid()}_{time.monotonic_ns()}"
    postgres.new_database(name)
    settings = {"store_url": postgres.url(name, password=None), "log_level": "debug"}
    async with ServerProcess(tmp_path, settings=settings) as server:
        cluster = Cluster(tmp_path, postgres, server)
        try:
            await cluster.start()
            yield cluster
        finally:
            await cluster.close()
    for log in tmp_path.rglob("*.log"):
        text = log.read_text(errors="replace")
        assert not [secret for secret in (PASSWORD, quote(PASSWORD, safe="")) if secret in text], log.name
        assert "Traceback" not in text, text[-4000:]


async def test_a_database_that_says_nothing_for_20_s_harms_no_inference_and_all_heals_by_itself(cluster):
    before = await cluster.running()
    async with cluster.traffic() as traffic:
        with cluster.postgres.frozen():
            frozen_at = time.monotonic()
            told = []
            while time.monotonic() < frozen_at + OUTAGE_S:
                told.append(await cluster.change())
                for path in ("/healthz", "/api/v1/models", "/api/v1/summary"):
                    status, _, seconds = await cluster.api("GET", path)
                    assert (status, seconds < TOLD_S) == (200, True), path
                status, _, seconds = await cluster.api("GET", "/api/v1/events")
                assert (status, seconds < TOLD_S) == (503, True), "events are read from the store"
            status, summary, _ = await cluster.api("GET", "/api/v1/summary")
            assert cluster.postgres.url("x").rpartition(":")[2].partition("/")[0] in summary["store_error"]
            assert "leader" not in summary
            assert (await cluster.api("GET", "/leader"))[0] == 503
            assert (await cluster.api("GET", "/address"))[0] == 200
            await traffic.more(10)
        assert {(status, body["error"]["code"]) for status, body, _ in told} == {(503, "store_unavailable")}
        assert max(seconds for _, _, seconds in told) < TOLD_S
        assert len(told) > OUTAGE_S / TOLD_S / 2

        await until(lambda: leads(cluster))
        await until(lambda: changes(cluster))
        await until(lambda: is_as(cluster, before))
        await traffic.more(20)
    assert traffic.failures == []
    _, events, _ = await cluster.api("GET", "/api/v1/events")
    assert not [event for event in events["events"] if event["severity"] == "error"]
    # The agent is back, and what it is asked for now is done.
    await cluster.server.call("POST", f"/api/v1/models/{MODEL}/scale", {"replicas": 2})
    await cluster.server.until(lambda: cluster.server.get("/api/v1/summary")["replicas"]["ready"] == 2)


async def test_a_database_that_crashes_and_is_started_again_harms_nothing(cluster):
    before = await cluster.running()
    async with cluster.traffic() as traffic:
        cluster.postgres.crash()
        status, body, seconds = await cluster.change()
        assert (status, body["error"]["code"]) == (503, "store_unavailable")
        assert seconds < TOLD_S
        await asyncio.to_thread(cluster.postgres.start)
        await until(lambda: changes(cluster))
        await until(lambda: is_as(cluster, before))
        await traffic.more(20)
    assert traffic.failures == []


async def test_a_control_plane_can_be_stopped_while_its_database_says_nothing(postgres, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMGW_STORE_PASSWORD", PASSWORD)
    name = f"stop_{os.getpid()}"
    postgres.new_database(name)
    async with ServerProcess(tmp_path, settings={"store_url": postgres.url(name, password=None)}) as server:
        with postgres.frozen():
            os.kill(server.pid, signal.SIGTERM)
            started = time.monotonic()
            await server.until(lambda: "server.stopped" in server.log(), deadline_s=20)
            while psutil.pid_exists(server.pid):
                assert time.monotonic() - started < 20
                await asyncio.sleep(0.05)
    assert "Traceback" not in server.log()


async def test_a_wrong_password_ends_the_start_with_a_plain_message(postgres, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMGW_STORE_PASSWORD", "geheim")
    config = tmp_path / "server.toml"
    config.write_text(
        f'data_dir = "{tmp_path}/data"\nstore_url = "{postgres.url("postgres", password=None)}"\n'
        'api_listen = "127.0.0.1:0"\nagent_listen = "127.0.0.1:0"\n'
    )
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "llmgw", "server", "--config", str(config), stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(server.communicate(), DEADLINE_S)
    assert server.returncode == 1
    assert b"password authentication failed" in said
    assert b"Traceback" not in said
    assert b"geheim" not in said


async def leads(cluster):
    status, _, _ = await cluster.api("GET", "/leader")
    assert status == 200


async def changes(cluster):
    status, body, _ = await cluster.change()
    assert status in {200, 201}, body


async def is_as(cluster, before):
    assert await cluster.running() == before
