"""Placement on a real control plane: models made before any node, wide models, and what they are given."""

import itertools
import time

import pytest

from llmgw.testing.fake_nodes import NodeGroup
from llmgw.testing.fleet_models import H100, models

SHARED = "/models/shared.gguf"
PLACED_WITHIN_S = 3.0


def group(count, site, **changes):
    """Give nodes of one site: on its InfiniBand, and on an Ethernet of its own over other adapters."""
    fabrics = (f"ib-{site}", f"eth-{site}")
    return NodeGroup(kind="h100x8", count=count, name=site, fabric=fabrics, weights=(SHARED,), **changes)


@pytest.mark.parametrize(
    ("nodes", "heartbeat_s"), [(24, 1.0), pytest.param(200, 5.0, marks=(pytest.mark.slow, pytest.mark.timeout(300)))]
)
async def test_models_made_before_any_node_are_placed_soon_after_the_last_one_came(control, capsys, nodes, heartbeat_s):
    fleet = await control()
    wanted = list(models(nodes, SHARED))
    for body in wanted:
        await fleet.server.call("POST", "/api/v1/models", body)
    total = sum(body["min"] for body in wanted)
    async with fleet.of(group(nodes // 2, "a"), group(nodes // 2, "b"), heartbeat_s=heartbeat_s) as fakes:
        arrived = time.monotonic()
        await fleet.server.until(lambda: placed(fleet.server) == total)
        took = time.monotonic() - arrived
        with capsys.disabled():
            print(f"\n{nodes} nodes: {total} replicas placed {took:.2f} s after the last one's arrival")  # noqa: T201 - the figure it is about
        if nodes >= 200:
            assert took < PLACED_WITHIN_S
        await fleet.ready(total)
        replicas = await fleet.replicas()
        check_no_device_is_sold_twice(replicas.values())
        for row in replicas.values():
            check_environment(fakes, row)
        assert fakes.starts() == sum(len(row["shards"]) for row in replicas.values()), "nothing was started twice"


def placed(server):
    counts = server.get("/api/v1/summary").get("replicas", {})
    return counts.get("ready", 0) + counts.get("starting", 0)


def check_no_device_is_sold_twice(rows):
    shards = list(itertools.chain.from_iterable(row["shards"] for row in rows))
    sold = [(shard["node"], device) for shard in shards for device in shard["allocation"].get("devices", ())]
    assert len(sold) == len(set(sold))


def check_environment(fakes, row):
    """Compare what each agent was ordered with what its node says of the fabric it was placed in."""
    shards = sorted(row["shards"], key=lambda shard: shard["rank"])
    ordered = [fakes.members[shard["node"]].node.wanted(shard["id"]).env for shard in shards]
    if len(shards) == 1:
        assert ordered == [{}]
        return
    (fabric,) = {shard["allocation"]["fabric"] for shard in shards}
    assert len({shard["node"] for shard in shards}) == len(shards)
    there = [attachment(fakes, shard["node"], fabric) for shard in shards]
    master_ports, rpc_ports = ({env[name] for env in ordered} for name in ("MASTER_PORT", "LLMGW_RPC_PORT"))
    for rank, (env, found) in enumerate(zip(ordered, there, strict=True)):
        assert env == {
            "NCCL_IB_HCA": "=" + ",".join(found.hcas),
            "NCCL_SOCKET_IFNAME": f"={found.interface}",
            "GLOO_SOCKET_IFNAME": found.interface,
            "NCCL_DEBUG": "WARN",
            "VLLM_HOST_IP": found.address,
            "MASTER_ADDR": there[0].address,
            "MASTER_PORT": env["MASTER_PORT"],
            "LLMGW_RPC_PORT": env["LLMGW_RPC_PORT"],
            "NNODES": str(len(shards)),
            "NODE_RANK": str(rank),
        }
        assert len(found.hcas) == 4, "half of the node's adapters: the others are on its other fabric"
    assert (len(master_ports), len(rpc_ports)) == (1, 1)
    assert master_ports.isdisjoint(rpc_ports)


def attachment(fakes, node, fabric):
    (found,) = [one for one in fakes.members[node].node.facts.fabrics if one.name == fabric]
    return found


async def test_a_model_of_sixteen_devices_spans_two_nodes_of_the_fabric_it_names(control):
    fleet = await control()
    async with fleet.of(group(2, "a"), group(2, "b")) as fakes:
        await fleet.serve("wide", nodes=2, devices_per_node=8, fabric="eth-b", **{"class": H100})
        await fleet.ready(1)
        (row,) = (await fleet.replicas()).values()
        assert {shard["node"] for shard in row["shards"]} == {"b-001", "b-002"}
        assert {shard["allocation"]["fabric"] for shard in row["shards"]} == {"eth-b"}
        assert [len(shard["allocation"]["devices"]) for shard in row["shards"]] == [8, 8]
        check_environment(fakes, row)
        (env, _) = (fakes.members[shard["node"]].node.wanted(shard["id"]).env for shard in row["shards"])
        assert env["NCCL_IB_HCA"] == "=mlx5_4,mlx5_5,mlx5_6,mlx5_7"
        assert (env["NCCL_SOCKET_IFNAME"], env["GLOO_SOCKET_IFNAME"]) == ("=ib1", "ib1")


REFUSED = """\
wide has 0 of 1 replica ready; 1 replica more fits nowhere: 2 nodes: 2 too few in one fabric

one shard, sifted through 2 nodes
  needs a node that is ready and was heard: 2 nodes left
  needs engine fake: 2 nodes left
  needs the weights /models/shared.gguf: 2 nodes left
  needs 8 h100-80gb: 2 nodes left
  needs 2 such nodes in one fabric: 2 nodes left
  needs 8 h100-80gb free and healthy: 2 nodes left
  needs 1 cores free: 2 nodes left
  2 could take one now

closest nodes
  a-001: fits by itself
  b-001: fits by itself

any one of these would make one more replica fit, the smallest first
  1. add 1 node like a-001 to fabric ib-a
"""


async def test_free_devices_across_fabrics_only_are_refused_and_what_explain_names_makes_the_model_fit(control):
    fleet = await control()
    await fleet.serve("wide", nodes=2, devices_per_node=8, **{"class": H100})
    async with fleet.of(group(1, "a"), group(1, "b")):
        await fleet.server.until(lambda: "in one fabric" in (reason(fleet.server) or ""))
        assert reason(fleet.server) == "2 nodes: 2 too few in one fabric"
        assert await fleet.ctl("model", "explain", "wide") == REFUSED
        more = NodeGroup(kind="h100x8", name="more", fabric="ib-a", weights=(SHARED,))
        async with fleet.of(more):
            await fleet.ready(1)
            (row,) = (await fleet.replicas()).values()
            assert {shard["node"] for shard in row["shards"]} == {"a-001", "more-001"}
            assert (await fleet.ctl("model", "explain", "wide")).startswith("wide has 1 of 1 replica ready")


def reason(server):
    row = server.get("/api/v1/models/wide")
    return row.get("reason") if row.get("state") == "unplaceable" and server.get("/api/v1/nodes")["nodes"][1:] else None
