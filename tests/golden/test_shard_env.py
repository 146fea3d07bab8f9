"""What the shards of a replica on several nodes are told of one another and of their fabric."""

from collections.abc import Callable

import msgspec

from llmgw.core.planner import plan
from llmgw.core.shard_env import shard_env
from llmgw.schema.fabric import Fabric
from llmgw.schema.model import Profile
from llmgw.schema.node import Node
from llmgw.testing.factories import GIB, carried_out, make_devices, make_model, make_node, make_snapshot, make_want

H100 = "h100-80gb"


def node(name: str, number: int, *fabrics: Fabric) -> Node:
    made = make_node(name, devices=make_devices(8), memory_bytes=512 * GIB)
    return msgspec.structs.replace(
        made, facts=msgspec.structs.replace(made.facts, address=f"192.0.2.{number}", fabrics=fabrics)
    )


def infiniband(name: str, *hcas: str, number: int) -> Fabric:
    return Fabric(name=name, hcas=hcas, rate_gbps=400.0, interface="ib0", address=f"10.1.0.{number}")


def told(title: str, nodes: list[Node], shards: int) -> str:
    profile = Profile(nodes=shards, devices_per_node=8, device_class=H100)
    snapshot = make_snapshot(nodes, [make_want(make_model("wide", profile=profile))])
    (replica,) = carried_out(snapshot, plan(snapshot)).replicas
    facts = {one.id: one.facts for one in nodes}
    lines = [f"> {title}"]
    for shard in replica.shards:
        lines.append(f"shard {shard.rank} on {shard.allocation.node}, fabric {shard.allocation.fabric}")
        lines += [f"  {name}={value}" for name, value in shard_env(replica, shard, facts).items()]
    return "\n".join(lines)


def test_shards_are_told_of_their_fabric_only(golden: Callable[[str, str], None]) -> None:
    second = Fabric(name="storage", hcas=("mlx5_2", "mlx5_3"), interface="eth1", address="10.9.0.1")
    texts = [
        told(
            "two fabrics on each node: only the adapters of the one that carries the replica",
            [
                node("n1", 1, infiniband("ib-a", "mlx5_0", "mlx5_1", number=1)),
                node("n2", 2, infiniband("ib-a", "mlx5_0", "mlx5_10", number=2), second),
            ],
            2,
        ),
        told(
            "a fabric that is only a name: InfiniBand is off, and the management addresses serve",
            [node(f"n{number}", number, Fabric(name="rack-7")) for number in range(1, 4)],
            3,
        ),
        told("one node: nobody to find", [node("n1", 1, infiniband("ib-a", "mlx5_0", number=1))], 1),
    ]
    golden("shard-env.txt", "\n\n".join(texts))
