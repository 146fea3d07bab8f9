"""Fake nodes against a real control plane, over the real protocol."""

import asyncio
import collections
import json
import socket
import sys

import openai
import pytest

from llmgw.config.gateway import GatewayConfig
from llmgw.config.load import load
from llmgw.testing.fake_nodes import FakeFleet, NodeGroup
from llmgw.testing.server_process import ServerProcess

SHARED = "/models/shared.gguf"
GROUPS = (
    NodeGroup(kind="h100x8", count=10, name="a", fabric="ib-a", weights=(SHARED,)),
    NodeGroup(kind="h100x8", count=10, name="b", fabric="ib-b", weights=(SHARED,)),
    NodeGroup(kind="cpu-large", count=8, weights=(SHARED,)),
    NodeGroup(kind="h100x8-mig", count=2, weights=(SHARED,)),
)


@pytest.fixture
async def server(tmp_path):
    async with ServerProcess(tmp_path) as server:
        yield server
    assert "Traceback" not in server.log(), server.log()


def fleet(server, groups=GROUPS, **options):
    options = {"heartbeat_s": 1.0, "start_s": 0.1} | options
    return FakeFleet(groups, server=server.agent_address, token=server.agent_token, **options)


async def serve(server, name, **fields):
    profile = {"engine": "fake", "cores": 1.0, **fields.pop("profile", {})}
    await server.call("POST", "/api/v1/models", {"name": name, "source": SHARED, "profile": profile, **fields})


async def ready(server, count):
    await server.until(lambda: server.get("/api/v1/summary")["replicas"]["ready"] == count)


async def test_models_made_before_any_node_are_placed_once_the_nodes_come(server):
    await serve(server, "wide", profile={"nodes": 2, "devices_per_node": 8, "class": "h100-80gb"})
    for number in range(4):
        await serve(server, f"gpu-{number}", min=4, max=4, profile={"devices_per_node": 4, "class": "h100-80gb"})
    await serve(server, "slice", profile={"devices_per_node": 1, "class": "h100-80gb/mig-1g.10gb"})
    await serve(server, "cpu", min=8, max=8)
    async with fleet(server) as fakes:
        await fakes.joined()
        await ready(server, 1 + 16 + 1 + 8)
        replicas = (await server.call("GET", "/api/v1/replicas"))["replicas"]
        summary = await server.call("GET", "/api/v1/summary")
    nodes = [shard["node"] for replica in replicas if replica["model"] == "wide" for shard in replica["shards"]]
    assert len(set(nodes)) == 2
    assert len({node[0] for node in nodes}) == 1, f"one fabric, not {nodes}"
    assert summary["nodes"]["ready"] == 30
    assert {row["fabric"]: row["nodes"] for row in summary["fabrics"]} == {"ib-a": 10, "ib-b": 10}
    used = {row["class"]: (row["used"], row["total"]) for row in summary["gpus"]}
    assert used == {"h100-80gb": (80, 160), "h100-80gb/mig-1g.10gb": (1, 112)}


async def test_devices_that_are_free_only_across_fabrics_are_refused_with_that_reason(server):
    groups = [
        NodeGroup(kind="h100x8", count=1, name=fabric, fabric=fabric, weights=(SHARED,)) for fabric in ("ib-a", "ib-b")
    ]
    await serve(server, "wide", profile={"nodes": 2, "devices_per_node": 8, "class": "h100-80gb"})
    async with fleet(server, groups) as fakes:
        await fakes.joined()
        row = await server.until(lambda: unplaceable(server, "in one fabric"))
        assert {one["constraint"] for one in row["rejections"]} == {"fabric"}
        one_more = NodeGroup(kind="h100x8", name="more", fabric="ib-b", weights=(SHARED,))
        async with fleet(server, [one_more]) as others:
            await others.joined()
            await ready(server, 1)
        (row,) = (await server.call("GET", "/api/v1/replicas"))["replicas"]
        assert {shard["node"] for shard in row["shards"]} == {"ib-b-001", "more-001"}


def unplaceable(server, reason):
    """Give the model's row once it tells the refusal of the whole fleet; nodes join one after the other."""
    row = server.get("/api/v1/models/wide")
    return row if row.get("state") == "unplaceable" and row["rejections"] and reason in row["reason"] else None


async def test_clients_are_answered_by_fake_engines_through_a_real_gateway_while_agents_hang(server, tmp_path):
    await serve(server, "m", min=3, max=3)
    (tmp_path / "gateway.toml").write_text(
        f'data_dir = "{tmp_path / "gateway"}"\ncontrol_socket = "{server.data / "hub.sock"}"\n'
        f'listen = "127.0.0.1:{free_port()}"\nworkers = 1\n'
    )
    config = load(GatewayConfig, tmp_path / "gateway.toml")
    key = json.loads((server.data / "credentials.json").read_text())["api_key"]
    async with fleet(server, (NodeGroup(kind="cpu-small", count=3, name="n", weights=(SHARED,)),)) as fakes:
        await fakes.joined()
        await ready(server, 3)
        gateway = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "llmgw", "gateway", "--config", str(tmp_path / "gateway.toml"))
        )
        try:
            async with openai.AsyncOpenAI(base_url=f"http://{config.listen}/v1", api_key=key, max_retries=9) as client:
                fakes.command("freeze 2")
                fakes.command("kill 1")
                for _ in range(9):
                    answer = await client.chat.completions.create(
                        model="m", messages=[{"role": "user", "content": "count"}]
                    )
                    assert answer.choices[0].message.content == " 1 2 3 4 5 6 7 8"
            assert fakes.doors.answered() == 9
        finally:
            gateway.terminate()
            await gateway.wait()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


async def test_a_frozen_agent_keeps_its_engines_and_a_killed_node_comes_back_empty(server):
    async with fleet(server, (NodeGroup(kind="cpu-small", count=3, name="n", weights=(SHARED,)),)) as fakes:
        await fakes.joined()
        await serve(server, "m", min=3, max=3)
        await ready(server, 3)
        starts = fakes.starts()
        kept = tuple(fakes.members["n-001"].node.starts)
        killed = len(fakes.members["n-002"].node.starts)
        assert "1 frozen" in fakes.command("freeze n-001")
        assert "1 dead" in fakes.command("kill n-002")
        await server.until(lambda: unreachable(server) == {"n-001", "n-002"})
        assert fakes.command("heal").startswith("3 nodes: 3 healthy; ")
        await server.until(lambda: unreachable(server) == set())
        await ready(server, 3)
        assert tuple(fakes.members["n-001"].node.starts) == kept
        assert fakes.starts() == starts + killed, "only the killed node's engines start again"


def unreachable(server):
    return {node["id"] for node in server.get("/api/v1/nodes")["nodes"] if node["state"] == "unreachable"}


async def test_the_command_joins_through_the_context_and_obeys_its_standard_input(server, tmp_path):
    (tmp_path / "fleet.yaml").write_text("nodes: [{kind: h100x8, count: 3}, {kind: cpu-small, count: 2, name: c}]")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "llmgw", "fake-nodes", "--file", str(tmp_path / "fleet.yaml"), "--flap", "1"),
        env={"LLMGW_API": server.root, "LLMGW_TOKEN": server.admin_token, "PATH": "/usr/bin:/bin"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"joined: 5 nodes: 5 healthy; 0 engines, 0 requests answered\n"
            assert (await process.stdout.readline()).startswith(b"5 nodes: 4 healthy, 1 flapping; ")
            process.stdin.write(b"partition 2\n")
            assert (await process.stdout.readline()).startswith(b"5 nodes: 2 healthy, 2 partitioned, 1 flapping; ")
        await server.until(lambda: kinds(server) == {"h": 3, "c": 2})
    finally:
        process.terminate()
        assert await process.wait() == 0


def kinds(server):
    return collections.Counter(node["id"][0] for node in server.get("/api/v1/nodes")["nodes"])


async def test_a_wrong_token_is_told_in_the_control_planes_words(server):
    fakes = FakeFleet((NodeGroup(kind="cpu-small"),), server=server.agent_address, token="wrong")
    async with fakes:
        with pytest.raises(Exception, match="the token is not the one this control plane expects"):
            await fakes.joined(deadline_s=2)
