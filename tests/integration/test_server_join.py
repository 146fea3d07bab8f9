"""A second control plane joins over mutual TLS, and takes over: certificates, writes and agents go on."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys

import pytest

from llmgw.link.api import Api, Unreachable
from llmgw.testing.postgres import PASSWORD, PostgresServer, installed
from llmgw.testing.server_process import ServerProcess

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def postgres():
    binaries = installed()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with PostgresServer(binaries) as server:
        yield server


@pytest.fixture
def planes(postgres, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMGW_STORE_PASSWORD", PASSWORD)
    name = f"joining_{secrets.token_hex(4)}"
    postgres.new_database(name)
    url = postgres.url(name, password=None)
    credentials = str(tmp_path / "credentials.json")
    return [
        ServerProcess(
            tmp_path / name,
            settings={"name": name, "tls": "on", "store_url": url, "credentials_file": credentials},
        )
        for name in ("one", "two")
    ]


async def llmgw(*words, stdin=""):
    argv = [sys.executable, "-m", "llmgw", *map(str, words)]
    return await asyncio.to_thread(
        subprocess.run, argv, input=stdin, text=True, capture_output=True, check=False, timeout=60
    )


async def token(server, part, name):
    made = await server.call("POST", "/api/v1/join-tokens", {"part": part, "name": name})
    return made["token"]


@contextlib.asynccontextmanager
async def agent(folder, servers):
    """Run a joined agent; it runs no engines."""
    config = folder / "agent.toml"
    with (folder / "agent.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "llmgw", "agent", "--config", str(config), stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()
        ended = await llmgw("agent", "--config", config, "--stop-engines")
        assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
async def test_a_second_control_plane_joins_with_a_token_and_takes_over_agents_and_trust(planes, tmp_path):
    one, two = planes
    async with one:
        two.configure()
        refused = await llmgw("server", "--config", two.config)
        assert refused.returncode != 0
        assert "this control plane has not joined its cluster" in refused.stderr
        assert "llmgw ctl server token two" in refused.stderr

        joined = await llmgw(
            "server",
            "join",
            "--config",
            two.config,
            "--via",
            one.agent_address,
            stdin=await token(one, "server", "two"),
        )
        assert joined.returncode == 0, joined.stderr
        assert joined.stdout.startswith("joined as server two;")
        assert (two.data / "identity" / "authority-secret").stat().st_mode & 0o777 == 0o600

        async with two:
            assert two.authority.read_bytes() == one.authority.read_bytes()
            states = {"leading", "standing by"}
            await two.until(lambda: {plane["state"] for plane in control_planes(two)} == states)
            # A write through the standby crosses to the leader over TLS that is checked.
            made = await two.call("POST", "/api/v1/keys", {"name": "through the standby"})
            assert made["secret"]

            node = tmp_path / "node"
            node.mkdir()
            settings = {
                "data_dir": str(node / "data"),
                "node_id": "n1",
                "servers": [one.agent_address, two.agent_address],
                "door_listen": "127.0.0.1:0",
                "heartbeat_s": 1.0,
                "tls": "on",
            }
            (node / "agent.toml").write_text(
                "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
            )
            # The standby it asks first sends it to the leader.
            words = ("agent", "join", "--config", node / "agent.toml", "--via", two.agent_address)
            joined = await llmgw(*words, stdin=await token(two, "node", "n1"))
            assert joined.returncode == 0, joined.stderr

            async with agent(node, planes):
                await one.until(lambda: one.get("/api/v1/nodes/n1").get("connected"))
                os.kill(one.pid, signal.SIGKILL)
                await two.until(lambda: two.get("/api/v1/summary").get("leader") == "two")
                await two.until(lambda: two.get("/api/v1/nodes/n1").get("connected"))
                await two.call("DELETE", "/api/v1/nodes/n1")
                await two.until(lambda: "not known here" in (node / "agent.log").read_text())
                assert await token(two, "node", "n3")
    for log in tmp_path.rglob("*.log"):
        assert "Traceback" not in log.read_text(errors="replace"), log.read_text(errors="replace")[-4000:]


async def test_the_api_shows_a_certificate_of_the_cluster_and_nothing_in_the_clear(planes):
    one, _ = planes
    async with one:
        with pytest.raises(Unreachable, match=r"is not trusted: .*"):
            await asyncio.to_thread(Api(one.root, None).get, "/healthz")
        plain = one.root.replace("https", "http")
        with pytest.raises(Exception, match=r"does not speak HTTP|cannot reach"):
            await asyncio.to_thread(Api(plain, None).get, "/healthz")


def control_planes(server):
    return server.get("/api/v1/control-planes").get("control_planes", [])
