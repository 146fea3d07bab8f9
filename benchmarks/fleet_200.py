"""200 fake nodes on two fabrics join a real control plane that was given its models before: tells when all is placed.

python benchmarks/fleet_200.py [--nodes 200] [--heartbeat 5]
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from llmgw.testing.fake_nodes import FakeFleet, NodeGroup
from llmgw.testing.fleet_models import models
from llmgw.testing.server_process import ServerProcess

SHARED = "/models/shared.gguf"


async def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description="Time from the last node's arrival until all models are placed.")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--heartbeat", type=float, default=5.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        async with ServerProcess(Path(folder)) as server:
            await _run(server, options.nodes, options.heartbeat)


async def _run(server: ServerProcess, nodes: int, heartbeat_s: float) -> None:
    wanted = list(models(nodes, SHARED))
    for body in wanted:
        await server.call("POST", "/api/v1/models", body)
    replicas = sum(body["min"] for body in wanted)
    groups = [
        NodeGroup(kind="h100x8", count=nodes // 2, name=f"fake-{fabric}", fabric=fabric, weights=(SHARED,))
        for fabric in ("ib-a", "ib-b")
    ]
    process = psutil.Process(server.pid)
    cpu, began = _cpu(process), time.monotonic()
    fleet = FakeFleet(
        groups, server=server.agent_address, token=server.agent_token, heartbeat_s=heartbeat_s, start_s=0.05
    )
    async with fleet:
        await fleet.joined(deadline_s=120)
        arrived = time.monotonic()
        await server.until(lambda: _placed(server) >= replicas, deadline_s=120)
        placed = time.monotonic()
        await server.until(lambda: _count(server, "ready") >= replicas, deadline_s=120)
        ready = time.monotonic()
        print(f"{nodes} nodes joined within {arrived - began:.2f} s; {replicas} replicas wanted before")
        print(f"all placed {placed - arrived:.2f} s after the last node's arrival, all ready {ready - arrived:.2f} s")
        print(f"the control plane used {_cpu(process) - cpu:.1f} s of a core for it")
        await _describe(server)
        print(f"fake engines started: {fleet.starts()} (shards: {sum(await _shards(server))})")
        cpu, began = _cpu(process), time.monotonic()
        await asyncio.sleep(15)
        share = 100 * (_cpu(process) - cpu) / (time.monotonic() - began)
        print(f"at rest with {heartbeat_s:g} s heartbeats: {share:.1f} % of a core")


async def _describe(server: ServerProcess) -> None:
    rows = (await server.call("GET", "/api/v1/replicas"))["replicas"]
    wide = [{shard["node"] for shard in row["shards"]} for row in rows if row["model"].startswith("wide")]
    fabrics = Counter(tuple(sorted({node.rsplit("-", 1)[0] for node in nodes})) for nodes in wide)
    print(f"16-device replicas: {len(wide)}, nodes each {sorted({len(nodes) for nodes in wide})}, by fabric:")
    for names, count in sorted(fabrics.items()):
        print(f"  {', '.join(names)}: {count}")


async def _shards(server: ServerProcess) -> list[int]:
    return [len(row["shards"]) for row in (await server.call("GET", "/api/v1/replicas"))["replicas"]]


def _placed(server: ServerProcess) -> int:
    return _count(server, "ready") + _count(server, "starting")


def _count(server: ServerProcess, state: str) -> int:
    return int(server.get("/api/v1/summary").get("replicas", {}).get(state, 0))


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


if __name__ == "__main__":
    asyncio.run(main())
