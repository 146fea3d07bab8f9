"""What must not be placed on: a node that is full, a device that is unhealthy, a node that is cordoned."""

import asyncio

from llmgw.testing.fake_nodes import NodeGroup
from llmgw.testing.fleet_models import H100

SHARED = "/models/shared.gguf"
TWO_TURNS_S = 2.5
"""The reconciler turns at least once a second: what it has not placed by then it does not place."""


async def test_two_models_that_claim_most_of_a_nodes_memory_each_are_not_both_placed_on_it(control):
    fleet = await control()
    await fleet.serve("first", memory_gb=20.0)
    await fleet.serve("second", memory_gb=20.0)
    async with fleet.of(NodeGroup(kind="cpu-small", name="n", weights=(SHARED,))):
        await fleet.ready(1)
        await asyncio.sleep(TWO_TURNS_S)
        (row,) = (await fleet.replicas()).values()
        short = ({"first", "second"} - {row["model"]}).pop()
        told = await fleet.ctl("model", "explain", short)
        why = "n-001 needs 20.0 GiB of memory, 12.0 GiB free"
        assert told.startswith(f"{short} has 0 of 1 replica ready; 1 replica more fits nowhere: 1 node: {why}\n")
        async with fleet.of(NodeGroup(kind="cpu-small", name="m", weights=(SHARED,))):
            await fleet.ready(2)
            nodes = {row["shards"][0]["node"] for row in (await fleet.replicas()).values()}
            assert nodes == {"n-001", "m-001"}


async def test_a_device_with_a_fault_or_a_foreign_process_is_not_used_and_says_why(control):
    fleet = await control()
    async with fleet.of(NodeGroup(kind="h100x8", name="n", weights=(SHARED,))) as fakes:
        node = fakes.members["n-001"].node
        node.fault(2, "Xid 79: the GPU has fallen off the bus")
        node.fault(5, "held by process 4711 (python), not ours")
        await fleet.server.until(lambda: gpus(fleet.server) == {"total": 8, "used": 0, "unhealthy": 2})
        await fleet.serve("one", replicas=7, devices_per_node=1, **{"class": H100})
        await fleet.ready(6)
        await asyncio.sleep(TWO_TURNS_S)
        rows = (await fleet.replicas()).values()
        used = {device for row in rows for shard in row["shards"] for device in shard["allocation"]["devices"]}
        assert used == {f"GPU-n-001-{card}" for card in (0, 1, 3, 4, 6, 7)}
        told = await fleet.ctl("model", "explain", "one")
        assert "Xid 79: the GPU has fallen off the bus" in told
        assert "held by process 4711 (python), not ours" in told
        shown = await fleet.ctl("node", "show", "n-001")
        assert "unhealthy  80.0 GiB  GPU-n-001-2  Xid 79: the GPU has fallen off the bus" in shown
        assert gpus(fleet.server) == {"total": 8, "used": 6, "unhealthy": 2}

        node.fault(5, None)
        await fleet.ready(7)


def gpus(server):
    (row,) = server.get("/api/v1/summary").get("gpus") or [{}]
    return {name: row.get(name) for name in ("total", "used", "unhealthy")}


async def test_a_cordon_survives_silences_and_restarts_of_agents_and_of_the_control_plane(control):
    fleet = await control()
    async with fleet.of(NodeGroup(kind="cpu-small", count=3, name="n", weights=(SHARED,))) as fakes:
        await fleet.ctl("node", "cordon", "n-002", "--reason", "bad fan")
        await fleet.serve("m", replicas=6)
        await fleet.ready(6)
        await cordoned(fleet)
        fakes.command("kill n-002")
        await fleet.server.until(lambda: fleet.server.get("/api/v1/nodes/n-002").get("connected") is False)
        fakes.command("heal")
        await fleet.server.until(lambda: fleet.server.get("/api/v1/nodes/n-002").get("connected"))
        await cordoned(fleet)

        before, starts = lives(await fleet.replicas()), fakes.starts()
        await fleet.server.restart()
        await fleet.server.until(lambda: len(connected(fleet.server)) == 3)
        await fleet.serve("later")
        await fleet.ready(7)
        await cordoned(fleet)
        after = lives(await fleet.replicas())
        assert after | before == after, "what ran before runs on unchanged"
        assert fakes.starts() == starts + 1

        await fleet.ctl("node", "uncordon", "n-002")
        await fleet.server.until(lambda: "n-002" in fleet.nodes("ready"))


def lives(replicas):
    """Give what tells whether replicas were touched; measurements in their rows change all the time."""
    told = ("state", "attempt", "restart_count", "created_at", "ready_at")
    return {name: [row.get(field) for field in told] for name, row in replicas.items()}


async def cordoned(fleet):
    row = await fleet.node("n-002")
    assert (row["state"], row["intent"], row["intent_reason"]) == ("cordoned", "cordoned", "bad fan")
    assert all(shard["node"] != "n-002" for one in (await fleet.replicas()).values() for shard in one["shards"])


def connected(server):
    return [row for row in server.get("/api/v1/nodes").get("nodes", ()) if row["connected"]]
