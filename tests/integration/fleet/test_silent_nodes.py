"""Nodes that fall silent: half a fleet together, one alone, a few at once."""

import asyncio
import itertools
from datetime import datetime

import pytest

from llmgw.testing.fake_nodes import NodeGroup
from llmgw.testing.fleet_models import models

SHARED = "/models/shared.gguf"
NODES = 200
UNREACHABLE_S, LOST_S, GRACE_S = 6.0, 20.0, 10.0
BETWEEN_LOSSES_S = 10.0
CLOCK_S = 1.5
"""Events are stamped by turns, which may be a second apart."""


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_half_a_fleet_that_vanishes_is_left_alone_and_single_nodes_are_replaced_one_by_one(control, capsys):
    fleet = await control(unreachable_after_s=UNREACHABLE_S, lost_after_s=LOST_S, lost_grace_s=GRACE_S)
    wanted = list(models(NODES, SHARED))
    for body in wanted:
        await fleet.server.call("POST", "/api/v1/models", body)
    total = sum(body["min"] for body in wanted)
    groups = [
        NodeGroup(kind="h100x8", count=NODES // 2, name=site, fabric=f"ib-{site}", weights=(SHARED,)) for site in "ab"
    ]
    async with fleet.of(*groups, heartbeat_s=2.0) as fakes:
        await fleet.ready(total)
        before, starts = lives(await fleet.replicas()), fakes.starts()

        away = sorted(fakes.members, key=lambda name: (name[1:], name))[: NODES // 2]
        for second in range(10):
            fakes.command("partition " + " ".join(away[second * 10 : (second + 1) * 10]))
            await asyncio.sleep(1)
        await fleet.server.until(lambda: fleet.nodes("unreachable") == set(away))
        await asyncio.sleep(LOST_S + UNREACHABLE_S)
        assert fleet.nodes("unreachable") == set(away), "none is lost, although each was silent for long enough"
        assert lives(await fleet.replicas()) == before, "nothing is replaced"
        alarms = fleet.server.get("/api/v1/summary")["alarms"]
        assert [alarm["kind"] for alarm in alarms] == ["replacement_held"]
        assert alarms[0]["text"].startswith("100 of 200 nodes of the fleet fell silent together")
        assert "100 of 200 nodes of the fleet fell silent together" in await fleet.ctl("status")
        assert len(await fleet.events("fleet.replacement_held")) == 1

        fakes.command("heal")
        await fleet.server.until(lambda: len(fleet.nodes("ready")) == NODES)
        await fleet.ready(total)
        assert (lives(await fleet.replicas()), fakes.starts()) == (before, starts), "nothing is started again"
        assert fleet.server.get("/api/v1/summary").get("alarms", []) == []
        assert len(await fleet.events("fleet.replacement_resumed")) == 1
        assert await fleet.events("node.lost") == []

        (victim,) = await vanish(fleet, away[:1], total)
        ((fell, lost),) = [await times(fleet, victim)]
        assert lost - fell >= LOST_S - UNREACHABLE_S - CLOCK_S
        now = lives(await fleet.replicas())
        struck = {name for name, life in before.items() if victim in life[2]}
        assert struck
        assert {name: now.get(name) for name in before.keys() - struck} == {
            name: life for name, life in before.items() if name not in struck
        }, "what ran on other nodes is left alone"
        assert len(now.keys() - before.keys()) == len(struck), "and one new replica comes for each on the lost node"

        victims = await vanish(fleet, away[1:4], total)
        ends = sorted([(await times(fleet, name))[1] for name in victims])
        pauses = [later - earlier for earlier, later in itertools.pairwise(ends)]
        assert min(pauses) >= BETWEEN_LOSSES_S - CLOCK_S
        with capsys.disabled():
            told = ", ".join(f"{pause:.1f} s" for pause in pauses)
            print(f"\n{victim} lost {lost - fell:.1f} s after it fell silent; three at once lost with pauses of {told}")  # noqa: T201 - as above
        assert fleet.server.get("/api/v1/summary").get("alarms", []) == []


async def vanish(fleet, names, total):
    """Switch nodes off and wait until all that ran on them runs elsewhere."""
    fleet.fakes.command("kill " + " ".join(names))
    await fleet.server.until(lambda: set(names) <= fleet.nodes("lost"), deadline_s=120)
    await fleet.server.until(lambda: ready_elsewhere(fleet) == total, deadline_s=60)
    return names


def ready_elsewhere(fleet):
    """Count the replicas that are ready on nodes that are there; rows of a lost node stay until it is back."""
    lost = fleet.nodes("lost")
    rows = fleet.server.get("/api/v1/replicas").get("replicas", ())
    there = (lost.isdisjoint(shard["node"] for shard in row["shards"]) for row in rows if row["state"] == "ready")
    return sum(there)


def lives(replicas):
    """Give what tells whether a replica was touched: its attempt, its restarts and where it is."""
    return {
        name: (row["attempt"], row.get("restart_count", 0), tuple(shard["node"] for shard in row["shards"]))
        for name, row in replicas.items()
    }


async def times(fleet, node):
    """Give when a node was last said to be silent, and when to be lost, in seconds."""
    return [
        datetime.fromisoformat(
            [event for event in await fleet.events(kind) if event["node"] == node][-1]["at"]
        ).timestamp()
        for kind in ("node.unreachable", "node.lost")
    ]
