"""1,000 fake agents at 5 s heartbeats on one control plane: tells what share of a core that takes.

python benchmarks/agents_1000.py [--agents 1000] [--heartbeat 5] [--seconds 30]
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import psutil

from llmgw.testing.fake_nodes import FakeFleet, NodeGroup
from llmgw.testing.server_process import ServerProcess

SHARED = "/models/shared.gguf"


async def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description="CPU share of a control plane with many agents.")
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--heartbeat", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        async with ServerProcess(Path(folder)) as server:
            await _run(server, options.agents, options.heartbeat, options.seconds)


async def _run(server: ServerProcess, agents: int, heartbeat_s: float, seconds: float) -> None:
    body = {"name": "m", "source": SHARED, "min": 100, "max": 100, "profile": {"engine": "fake", "cores": 4.0}}
    await server.call("POST", "/api/v1/models", body)
    group = NodeGroup(kind="h100x8", count=agents, name="fake", fabric="ib-a", weights=(SHARED,))
    fleet = FakeFleet([group], server=server.agent_address, token=server.agent_token, heartbeat_s=heartbeat_s)
    process = psutil.Process(server.pid)
    began = time.monotonic()
    async with fleet:
        await fleet.joined(deadline_s=300)
        print(f"{agents} agents joined within {time.monotonic() - began:.1f} s")
        await server.until(lambda: _ready(server) == (agents, 100), deadline_s=300, step_s=0.5)
        print(f"100 replicas ready after {time.monotonic() - began:.1f} s")
        await asyncio.sleep(5)
        before, began = _cpu(process), time.monotonic()
        await asyncio.sleep(seconds)
        share = 100 * (_cpu(process) - before) / (time.monotonic() - began)
        ready, _ = _ready(server)
        print(f"{share:.1f} % of a core over {seconds:g} s at {heartbeat_s:g} s heartbeats; {ready} nodes ready")
        print(f"memory {process.memory_info().rss / 1e6:.0f} MB")


def _ready(server: ServerProcess) -> tuple[int, int]:
    summary = server.get("/api/v1/summary")
    return summary.get("nodes", {}).get("ready", 0), summary.get("replicas", {}).get("ready", 0)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    asyncio.run(main())
