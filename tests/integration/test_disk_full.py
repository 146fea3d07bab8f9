"""The disk of a control plane's or a gateway's folder is full: it says so, serves on, and all heals by itself."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys

import aiohttp
import pytest
from msgspec.structs import replace

from llmgw.config.disk import FULL_BYTES
from llmgw.schema.errors import LlmgwError
from llmgw.schema.link import ViewDelta
from llmgw.schema.view import RoutesDelta
from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.fake_nodes import FakeFleet, NodeGroup
from llmgw.testing.gateway_process import Site, until
from llmgw.testing.gateway_room import a_replica, a_route, a_view
from llmgw.testing.gguf import write_counting_model
from llmgw.testing.server_process import ServerProcess
from llmgw.testing.small_disk import SmallDisk, missing

pytestmark = [pytest.mark.skipif(missing() is not None, reason=str(missing())), pytest.mark.timeout(180)]

ASK = [{"role": "user", "content": "hi"}]
SOURCE = "/models/shared.gguf"
UNSAVED = ("llmgw_gateway_view_unsaved",)


def ctl(server, *words):
    env = {**os.environ, "LLMGW_API": server.root, "LLMGW_TOKEN": server.admin_token}
    argv = [sys.executable, "-m", "llmgw", "ctl", *words]
    return subprocess.run(argv, capture_output=True, text=True, env=env, check=False, timeout=60).stdout


def running(server):
    found = server.get("/api/v1/replicas")["replicas"]
    return [(one["id"], one["state"], one["attempt"]) for one in found]


async def metrics(server):
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    async with aiohttp.ClientSession() as session, session.get(f"{server.root}/metrics", headers=headers) as answer:
        return await answer.text()


@contextlib.asynccontextmanager
async def fleet(server):
    """Three nodes and a model with two replicas."""
    group = NodeGroup(kind="cpu-large", count=3, weights=(SOURCE,))
    address, token = server.agent_address, server.agent_token
    async with FakeFleet([group], server=address, token=token, heartbeat_s=1.0) as nodes:
        await nodes.joined()
        profile = {"engine": "fake", "cores": 1.0}
        model = {"name": "m", "source": SOURCE, "min": 2, "max": 3, "profile": profile}
        await server.call("POST", "/api/v1/models", model)
        await server.until(lambda: server.get("/api/v1/summary")["replicas"]["ready"] == 2)
        yield nodes


async def is_as_before(server, replicas, lease):
    """The same leader without a restart, nothing lost, and what is asked for now is done."""
    await server.until(lambda: server.get("/leader") == lease)
    await server.until(lambda: "full" not in ctl(server, "status"))
    await server.call("POST", "/api/v1/models/m/scale", {"replicas": 3})
    await server.until(lambda: server.get("/api/v1/summary")["replicas"]["ready"] == 3)
    assert set(replicas) <= set(running(server))
    assert server.runs
    events = server.get("/api/v1/events")["events"]
    assert not [event for event in events if event["kind"] == "node.lost"]
    assert "Traceback" not in server.log()


@pytest.mark.slow
async def test_a_store_without_room_is_named_refuses_changes_and_goes_on_once_there_is_room(tmp_path):
    with SmallDisk(tmp_path / "data", mib=16) as disk:
        async with ServerProcess(tmp_path) as server, fleet(server):
            before, lease = running(server), server.get("/leader")
            disk.fill()
            with pytest.raises(LlmgwError, match="the store's disk is full") as refused:
                await server.call("POST", "/api/v1/keys", {"name": "somebody"})
            assert refused.value.code == "store_full"
            assert "models go on being served" in refused.value.hint
            # The lease needs room too: it lapses, and nobody else can take it.
            await server.until(lambda: "leader" not in server.get("/api/v1/summary"))
            status = ctl(server, "status")
            assert "nobody leads" in status
            assert f"away: the store's disk is full: nothing can be written to store {server.data}/llmgw.db" in status
            assert f"alarm          the disk of control-1's data_dir {server.data} is full" in status
            told = await metrics(server)
            assert 'llmgw_store_errors_total{call="lease_renew",code="store_full"}' in told
            (left,) = re.findall(r"^llmgw_data_dir_free_bytes (\S+)$", told, re.MULTILINE)
            assert float(left) < FULL_BYTES
            summary = server.get("/api/v1/summary")
            assert (summary["nodes"]["ready"], summary["replicas"]["ready"]) == (3, 2)
            disk.free()
            await is_as_before(server, before, lease)
        # Once, not once a second.
        assert server.log().count('"reconcile.turn_failed"') <= 3


@pytest.mark.slow
async def test_a_store_without_room_for_more_than_a_minute_lets_agents_go_and_takes_them_on_again(tmp_path):
    with SmallDisk(tmp_path / "data", mib=16) as disk:
        async with ServerProcess(tmp_path) as server, fleet(server):
            before, lease = running(server), server.get("/leader")
            disk.fill()
            await server.until(lambda: '"leader.stands_down"' in server.log(), deadline_s=120)
            assert server.get("/address") == {}
            await asyncio.sleep(10)
            assert running(server) == before
            disk.free()
            await is_as_before(server, before, lease)


async def test_a_disk_without_files_left_is_named_and_does_not_stop_sqlite(tmp_path):
    with SmallDisk(tmp_path / "data", mib=16, files=200) as disk:
        async with ServerProcess(tmp_path) as server, fleet(server):
            before, lease = running(server), server.get("/leader")
            disk.fill_files()
            await server.until(lambda: f"data_dir {server.data} is full" in ctl(server, "status"))
            await server.call("POST", "/api/v1/keys", {"name": "somebody"})
            assert server.get("/leader") == lease
            disk.free()
            await is_as_before(server, before, lease)


@contextlib.asynccontextmanager
async def agent(server, folder, weights):
    """A real agent with its folder in `folder`, ended with its engines."""
    config = folder.parent / "agent.toml"
    settings = {
        "data_dir": str(folder),
        "servers": [server.agent_address],
        "token_file": str(server.data / "agent-token"),
        "node_id": "n1",
        "weights_dirs": [str(weights)],
        "door_listen": "127.0.0.1:0",
        "heartbeat_s": 1.0,
    }
    config.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    argv = [sys.executable, "-m", "llmgw", "agent", "--config", str(config)]
    with (folder.parent / "agent.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*argv, stdout=log, stderr=log)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        # On a full disk too.
        assert await (await asyncio.create_subprocess_exec(*argv, "--stop-engines")).wait() == 0


async def serve(server, name, source):
    body = {"name": name, "source": str(source), "profile": {"slots": 1, "context": 256}}
    await server.call("POST", "/api/v1/models", body)


def state(server, name):
    return server.get(f"/api/v1/models/{name}").get("state")


@pytest.mark.slow
async def test_a_node_without_room_is_named_and_a_model_waits_for_it_unparked(tmp_path):
    pytest.importorskip("xllamacpp", reason="the extra `cpu` is not installed")
    source = tmp_path / "weights" / "counting.gguf"
    source.parent.mkdir()
    write_counting_model(source)
    settings = {"park_after": 2, "backoff_base_s": 0.5}
    with SmallDisk(tmp_path / "node" / "data", mib=16) as disk:
        async with (
            ServerProcess(tmp_path, settings=settings) as server,
            agent(server, disk.path, source.parent) as process,
        ):
            await serve(server, "first", source)
            await server.until(lambda: state(server, "first") == "ready")
            before = running(server)
            disk.fill()
            words = f"the disk of the agent's data_dir {disk.path} is full"
            await server.until(lambda: f"alarm          node n1: {words}" in ctl(server, "status"))
            assert words in ctl(server, "node", "show", "n1")
            told = await metrics(server)
            assert 'llmgw_node_problems{node="n1"} 1.0' in told
            await serve(server, "second", source)
            # More often than a model may fail that is to blame.
            await server.until(lambda: starts(server, "second") > 3)
            row = server.get("/api/v1/models/second")
            assert row["state"] != "parked"
            assert words in row["reason"]
            assert set(before) <= set(running(server))
            disk.free()
            await server.until(lambda: state(server, "second") == "ready")
            await server.until(lambda: "full" not in ctl(server, "status"))
            assert set(before) <= set(running(server))
            assert process.returncode is None
            disk.fill()


def starts(server, model):
    events = server.get("/api/v1/events")["events"]
    return sum(event["kind"] == "replica.start_failed" and event.get("model") == model for event in events)


@pytest.mark.slow
async def test_a_control_plane_started_on_a_full_disk_waits_for_room(tmp_path):
    with SmallDisk(tmp_path / "data", mib=16) as disk:
        async with ServerProcess(tmp_path) as server:
            await server.call("POST", "/api/v1/keys", {"name": "somebody"})
            keys = server.get("/api/v1/keys")
            disk.fill()
            restarting = asyncio.create_task(server.restart())
            await server.until(lambda: '"server.disk_full"' in server.log())
            await asyncio.sleep(3)
            assert not restarting.done()
            assert server.runs
            disk.free()
            await restarting
            assert server.get("/api/v1/keys") == keys
        assert "Traceback" not in server.log()
        assert server.log().count('"server.disk_full"') == 1


@pytest.mark.slow
async def test_a_gateway_without_room_serves_on_and_saves_its_view_once_there_is(tmp_path):
    async with FakeEngine(model="tiny", key="engine-key") as engine:
        route = a_route(a_replica("r1", engine.url, key="engine-key"))
        with SmallDisk(tmp_path / "small", mib=4) as disk:
            # Its log, with a line for each request, lies on the same disk as its view.
            async with Site(tmp_path / "small", a_view(route)) as site:
                await site.gateway.knows()
                await until((tmp_path / "small" / "gateway" / "view.json").exists)
                workers = site.gateway.workers()
                disk.fill()
                more = replace(route, model="later")
                site.control.send(ViewDelta(routes=RoutesDelta(base=1, version=2, changed=(more,))))
                await site.gateway.knows("later")
                await until(lambda: site.control.metrics().get(UNSAVED) == 1)
                async with site.gateway.client() as client:
                    for _ in range(50):
                        await client.chat.completions.create(model="later", messages=ASK, max_tokens=2)
                assert site.gateway.workers() == workers
                assert b"later" not in (tmp_path / "small" / "gateway" / "view.json").read_bytes()
                disk.free()
                await until(lambda: b"later" in (tmp_path / "small" / "gateway" / "view.json").read_bytes())
                await until(lambda: site.control.metrics().get(UNSAVED) is None)
                # It is started again on a full disk, without a control plane: the view is on disk.
                disk.fill()
                assert await site.gateway.stop() == 0
                await site.control.stop()
                await site.gateway.start()
                await site.gateway.knows("later")
                async with site.gateway.client() as client:
                    await client.chat.completions.create(model="later", messages=ASK, max_tokens=2)
                assert site.gateway.process.poll() is None
