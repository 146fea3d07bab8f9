"""A control plane under deliberate overload: starved of its processor, then with a store that takes two seconds."""

import asyncio
import contextlib
import os
import re
import signal
import sqlite3
import time
import urllib.request

from llmgw.testing.fake_agent import FakeAgent
from llmgw.testing.fake_node import FakeNode
from llmgw.testing.server_process import ServerProcess

AGENTS = 20
UNREACHABLE_S = 3.0
STARVED_S = 4.0
"""Longer than the silence that makes a node unreachable, shorter than the lease lives without a renewal (5 s)."""
RUNS_S = 0.8
SLOW_S = 2.0
PAUSE_S = 1.5


async def test_an_overloaded_control_plane_declares_no_node_silent_stops_no_engine_and_keeps_its_lease(tmp_path):
    settings = {"unreachable_after_s": UNREACHABLE_S, "lost_after_s": 2 * UNREACHABLE_S}
    async with ServerProcess(tmp_path, settings=settings) as server:
        nodes = [FakeNode(f"node-{number}") for number in range(AGENTS)]
        async with contextlib.AsyncExitStack() as stack:
            for node in nodes:
                await stack.enter_async_context(connected(server, node))
            await server.until(lambda: server.get("/api/v1/summary")["nodes"]["ready"] == AGENTS)
            await server.call("POST", "/api/v1/models", {"name": "chat", "source": "hf:o/m@r", "min": AGENTS // 2})
            await server.until(lambda: server.get("/api/v1/summary")["replicas"]["ready"] == AGENTS // 2)
            before, starts = server.get("/api/v1/summary"), [start for node in nodes for start in node.starts]

            for _ in range(4):
                os.kill(server.pid, signal.SIGSTOP)
                await asyncio.sleep(STARVED_S)
                os.kill(server.pid, signal.SIGCONT)
                await asyncio.sleep(RUNS_S)
            for _ in range(3):
                await asyncio.to_thread(hold, server.data / "llmgw.db")
                await asyncio.sleep(PAUSE_S)

            after = await server.until(lambda: server.get("/api/v1/summary") or None)
            kinds = {event["kind"] for event in (await server.call("GET", "/api/v1/events?limit=1000"))["events"]}
            assert {"node.unreachable", "node.lost", "fleet.replacement_held"}.isdisjoint(kinds)
            assert after["nodes"]["ready"] == AGENTS
            assert (after["leader"], after["epoch"]) == (before["leader"], before["epoch"])
            assert [start for node in nodes for start in node.starts] == starts
            assert sum(len(node.running()) for node in nodes) == AGENTS // 2
            assert await asyncio.to_thread(late_wakes, server) >= 4


@contextlib.asynccontextmanager
async def connected(server, node):
    """Keep a fake agent connected, dialling again whenever its stream ends."""

    async def dial():
        while True:
            with contextlib.suppress(OSError):
                await FakeAgent(node, address=server.agent_address, token=server.agent_token).run()
            await asyncio.sleep(0.1)

    task = asyncio.ensure_future(dial())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def hold(path):
    """Keep the database's write lock, as a slow disk would keep a transaction."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as other:
        other.execute("BEGIN IMMEDIATE")
        time.sleep(SLOW_S)
        other.execute("ROLLBACK")


def late_wakes(server):
    """Count the wake-ups of the serving loop that were later than two and a half seconds, as exported."""
    request = urllib.request.Request(
        f"{server.root}/metrics", headers={"authorization": f"Bearer {server.admin_token}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    buckets = dict(re.findall(r'llmgw_loop_lag_seconds_bucket{le="([^"]+)"} ([0-9.]+)', text))
    return float(buckets["+Inf"]) - float(buckets["2.5"])
