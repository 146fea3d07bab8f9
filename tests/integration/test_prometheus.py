"""Prometheus beside a real control plane: the API's hour is Prometheus's, and memory's when that is away."""

import asyncio
import contextlib
import math
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmgw.schema.engine import EngineInstall, EngineKind, EngineState
from llmgw.testing.fake_agent import FakeAgent
from llmgw.testing.fake_node import FakeNode, fake_facts
from llmgw.testing.prometheus_process import PrometheusProcess, installed
from llmgw.testing.server_process import ServerProcess

pytestmark = pytest.mark.skipif(not installed(), reason="no Prometheus: apt-get install prometheus")

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "llmgw.rules.yml"
STEP_S = 15
HISTORY = "/api/v1/nodes/node-1/history"
GAP_S = (1800, 2400)
"""Seconds ago: nothing was measured then. Longer than the five minutes for which Prometheus repeats a value."""


def past(now):
    """Give an hour of samples each 15 s: swings that no mistake reproduces, and a gap."""
    times = [now - ago for ago in range(3700, 0, -STEP_S) if not GAP_S[0] < ago < GAP_S[1]]
    lines = {
        'llmgw_node_cpu_utilization_percent{node="node-1"}': lambda at: 50 + 40 * math.sin(at / 300),
        'llmgw_node_memory_used_bytes{node="node-1"}': lambda at: 2**33 + (at % 1000) * 2**20,
        'llmgw_node_load{node="node-1",period="1m"}': lambda at: (at % 777) / 100,
        'llmgw_node_load{node="node-1",period="5m"}': lambda at: 99.0,
        'llmgw_node_cpu_utilization_percent{node="node-2"}': lambda at: 99.0,
        'llmgw_shard_cpu_cores{node="node-1",model="past",replica="ra",shard="ra.0"}': lambda at: (at % 4) / 2,
        'llmgw_shard_cpu_cores{node="node-1",model="past",replica="rb",shard="rb.0"}': lambda at: 1.0,
    }
    told = set()
    for series, value in sorted(lines.items()):
        name = series.partition("{")[0]
        if name not in told:
            yield f"# TYPE {name} gauge"
        told.add(name)
        yield from (f"{series} {value(at):.9g} {at}" for at in times)


@contextlib.asynccontextmanager
async def beating(server, fake):
    agent = FakeAgent(fake, address=server.agent_address, token=server.agent_token, heartbeat_s=0.5)
    task = asyncio.ensure_future(agent.run())
    try:
        yield agent
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def node():
    facts = replace(
        fake_facts("node-1"),
        engines=(EngineInstall(kind=EngineKind.LLAMACPP, version="1", variant="cpu", state=EngineState.READY),),
        engines_probed=True,
    )
    return FakeNode("node-1", facts=facts)


def points(history, name, **labels):
    found = [one["points"] for one in history["series"] if (one["name"], one["labels"]) == (name, labels)]
    return dict(map(tuple, found[0])) if found else {}


def own(prometheus, query, times):
    """What Prometheus itself says at these times."""
    result = prometheus.ask("query_range", query=query, start=min(times), end=max(times), step=STEP_S)["result"]
    values = {int(at): float(value) for at, value in result[0]["values"]} if result else {}
    return {at: values.get(at) for at in times}


@contextlib.asynccontextmanager
async def watched(tmp_path, *, lines=(), rules=None):
    """Give a control plane and the Prometheus that scrapes it with a viewer's token."""
    async with PrometheusProcess(tmp_path / "prometheus", rules=rules) as prometheus:
        settings = {"prometheus_url": prometheus.url}
        remembering = asyncio.ensure_future(prometheus.remember(lines)) if lines else None
        async with ServerProcess(tmp_path / "control", settings=settings) as server:
            if remembering is not None:
                await remembering
            made = await server.call("POST", "/api/v1/tokens", {"name": "prometheus", "role": "viewer"})
            await prometheus.start(target=server.root.removeprefix("http://"), token=made["secret"])
            yield server, prometheus
        assert "Traceback" not in server.log()
        assert made["secret"] not in server.log()


async def history_where(server, true):
    """Wait until the node's hour is as asked; gives it."""

    def found():
        history = server.get(HISTORY)
        return history if history and true(history) else None

    return await server.until(found)


async def test_the_apis_hour_is_what_prometheus_says_and_memory_stands_in_when_it_is_gone(tmp_path):
    now = int(time.time())
    async with watched(tmp_path, lines=past(now)) as (server, prometheus), beating(server, node()):
        await server.until(lambda: prometheus.ask("query", query='up{job="llmgw"} == 1')["result"])
        scraped = await server.until(
            lambda: prometheus.ask("query", query='llmgw_node_cpus{job="llmgw",node="node-1"}')["result"]
        )
        assert float(scraped[0]["value"][1]) == 8.0
        history = await history_where(server, lambda one: one["source"] == "prometheus")
        assert history["problem"] is None
        names = {
            "cpu_percent": 'max(llmgw_node_cpu_utilization_percent{node="node-1"})',
            "memory_used_bytes": 'max(llmgw_node_memory_used_bytes{node="node-1"})',
            "load1": 'max(llmgw_node_load{node="node-1",period="1m"})',
        }
        for name, query in names.items():
            ours = points(history, name)
            assert ours == own(prometheus, query, ours)
            gap = [value for at, value in ours.items() if now - GAP_S[1] + 310 < at < now - GAP_S[0] - 20]
            assert gap
            assert set(gap) == {None}
            assert sum(value is not None for value in ours.values()) > 150
        cores = points(history, "model_cores", model="past")
        assert cores == own(prometheus, 'sum(llmgw_shard_cpu_cores{node="node-1",model="past"})', cores)

        await prometheus.kill()
        history = await history_where(server, lambda one: one["problem"])
        assert history["source"] == "memory"
        assert history["problem"].startswith(f"Prometheus at 127.0.0.1:{prometheus.port} is not reachable: ")
        assert "the last hour kept by this control plane is shown instead" in history["problem"]
        await history_where(server, lambda one: points(one, "cpu_percent"))


@pytest.mark.slow
async def test_a_frozen_prometheus_costs_two_seconds_once_and_is_found_again_by_itself(tmp_path):
    async with watched(tmp_path, rules=RULES) as (server, prometheus), beating(server, node()):
        history = await history_where(server, lambda one: one["source"] == "prometheus" and points(one, "cpu_percent"))
        scraped = points(history, "cpu_percent")
        assert scraped == own(prometheus, 'max(llmgw_node_cpu_utilization_percent{node="node-1"})', scraped)
        rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        assert len(rules) > 20
        assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []
        # No gateway is there in this test, and nothing else is wrong.
        assert {rule["name"] for rule in rules if rule["state"] != "inactive"} <= {"LlmgwNoGateway"}
        prometheus.freeze()
        began = time.monotonic()
        history = await server.call("GET", HISTORY)
        assert "did not answer within 2 s" in history["problem"]
        assert time.monotonic() - began < 10
        assert points(history, "cpu_percent")
        assert (await server.call("GET", HISTORY))["problem"] == history["problem"]
        prometheus.thaw()
        await history_where(server, lambda one: one["source"] == "prometheus")
