"""The environment of a shard that works with others on other nodes.

It says who the shard is, where the first one is, and which adapters it may use.
Fabrics are not connected to one another, so a shard is given the adapters of its replica's fabric and no others. NCCL
reads names as prefixes unless the list begins with `=`, and an empty list as every adapter there is: so the list is
always exact, and a fabric without adapters has InfiniBand switched off.
"""

import hashlib
from collections.abc import Mapping

from llmgw.schema.fabric import Fabric
from llmgw.schema.node import NodeFacts
from llmgw.schema.replica import Replica, Shard

FIRST_PORT = 20_000
PORT_PAIRS = 5_000
"""Rendezvous ports lie in 20000 to 29999: above the well-known ones, below those Linux hands out by itself (32768)."""


def shard_env(replica: Replica, shard: Shard, nodes: Mapping[str, NodeFacts]) -> dict[str, str]:
    """Give the variables of one shard, sorted by name; none for a replica on a single node.

    `nodes` by id. What a node does not say of itself is left out: the engine then decides for itself.
    """
    if len(replica.shards) == 1:
        return {}
    first = min(replica.shards, key=lambda other: other.rank)
    port = rendezvous_port(replica)
    env = {
        "LLMGW_RPC_PORT": str(port + 1),
        "MASTER_PORT": str(port),
        "NCCL_DEBUG": "WARN",
        "NNODES": str(len(replica.shards)),
        "NODE_RANK": str(shard.rank),
        **_adapters(_fabric(shard, nodes)),
        **_interface(_fabric(shard, nodes)),
    }
    if (own := _address(shard, nodes)) is not None:
        env["VLLM_HOST_IP"] = own
    if (master := _address(first, nodes)) is not None:
        env["MASTER_ADDR"] = master
    return dict(sorted(env.items()))


def rendezvous_port(replica: Replica) -> int:
    """Give the port on the first shard's node where the others find it; the next one is for the engine's own calls.

    Drawn from the replica's id and attempt: two replicas whose first shards share a node hardly ever meet, and a start
    that failed for its port has another one the next time.
    """
    drawn = hashlib.sha256(f"{replica.id}/{replica.attempt}".encode()).digest()
    return FIRST_PORT + 2 * (int.from_bytes(drawn[:4], "big") % PORT_PAIRS)


def _adapters(fabric: Fabric | None) -> dict[str, str]:
    if fabric is None or not fabric.hcas:
        # The second is for network plugins that do not read the first (HPC-X).
        return {"NCCL_IB_DISABLE": "1", "NCCL_IBEXT_DISABLE": "1"}
    return {"NCCL_IB_HCA": "=" + ",".join(fabric.hcas)}


def _interface(fabric: Fabric | None) -> dict[str, str]:
    if fabric is None or fabric.interface is None:
        return {}
    # NCCL takes a pattern, exact with "="; Gloo takes a plain name.
    return {"NCCL_SOCKET_IFNAME": f"={fabric.interface}", "GLOO_SOCKET_IFNAME": fabric.interface}


def _address(shard: Shard, nodes: Mapping[str, NodeFacts]) -> str | None:
    fabric, facts = _fabric(shard, nodes), nodes.get(shard.allocation.node)
    if fabric is not None and fabric.address is not None:
        return fabric.address
    return None if facts is None else facts.address


def _fabric(shard: Shard, nodes: Mapping[str, NodeFacts]) -> Fabric | None:
    facts = nodes.get(shard.allocation.node)
    if facts is None:
        return None
    return next((fabric for fabric in facts.fabrics if fabric.name == shard.allocation.fabric), None)
