import msgspec

from llmgw.core.desired import desired_shards
from llmgw.core.shard_env import FIRST_PORT, PORT_PAIRS, rendezvous_port, shard_env
from llmgw.schema.fabric import Fabric
from llmgw.schema.model import Profile
from llmgw.testing.factories import make_allocation, make_model, make_node, make_replica

A = Fabric(name="ib-a", hcas=("mlx5_1", "mlx5_10"), interface="ib0", address="10.1.0.1")
B = Fabric(name="ib-b", hcas=("mlx5_2",), interface="ib1", address="10.2.0.1")


def facts(node, *fabrics):
    return msgspec.structs.replace(make_node(node).facts, address=f"192.0.2.{node[1:]}", fabrics=fabrics)


def pair(fabric="ib-a", **fields):
    allocations = [msgspec.structs.replace(make_allocation(node), fabric=fabric) for node in ("n1", "n2")]
    return make_replica("rpair", allocations=allocations, **fields)


def test_a_replica_on_one_node_needs_nothing():
    replica = make_replica()
    assert shard_env(replica, replica.shards[0], {"n1": facts("n1", A)}) == {}


def test_only_adapters_of_the_replicas_own_fabric_are_given_each_by_its_exact_name():
    replica = pair()
    env = shard_env(replica, replica.shards[0], {"n1": facts("n1", B, A), "n2": facts("n2", A)})
    assert env["NCCL_IB_HCA"] == "=mlx5_1,mlx5_10"
    assert "NCCL_IB_DISABLE" not in env
    assert (env["NCCL_SOCKET_IFNAME"], env["GLOO_SOCKET_IFNAME"], env["VLLM_HOST_IP"]) == ("=ib0", "ib0", "10.1.0.1")


def test_a_fabric_without_adapters_switches_infiniband_off():
    replica = pair()
    env = shard_env(replica, replica.shards[0], {"n1": facts("n1", Fabric(name="ib-a"), B)})
    assert env["NCCL_IB_DISABLE"] == "1"
    assert "NCCL_IB_HCA" not in env


def test_a_node_that_is_gone_leaves_its_address_out():
    replica = pair()
    env = shard_env(replica, replica.shards[1], {"n2": facts("n2")})
    assert "MASTER_ADDR" not in env
    assert (env["VLLM_HOST_IP"], env["NODE_RANK"]) == ("192.0.2.2", "1")


def test_all_shards_meet_at_the_first_ones_address_on_the_fabric():
    replica = pair()
    other = msgspec.structs.replace(A, address="10.1.0.2", hcas=("mlx5_4",))
    nodes = {"n1": facts("n1", A), "n2": facts("n2", other)}
    first, second = (shard_env(replica, shard, nodes) for shard in replica.shards)
    for name in ("MASTER_ADDR", "MASTER_PORT", "LLMGW_RPC_PORT", "NNODES"):
        assert first[name] == second[name]
    assert first["MASTER_ADDR"] == "10.1.0.1"
    assert (second["NODE_RANK"], second["NCCL_IB_HCA"], second["VLLM_HOST_IP"]) == ("1", "=mlx5_4", "10.1.0.2")


def test_each_attempt_draws_another_port_below_those_the_system_hands_out():
    ports = {rendezvous_port(pair(attempt=attempt)) for attempt in range(1, 50)}
    assert len(ports) > 45
    assert all(FIRST_PORT <= port < FIRST_PORT + 2 * PORT_PAIRS < 32768 for port in ports)
    assert all(port % 2 == 0 for port in ports)


def test_what_the_operator_wrote_goes_before_what_follows_from_the_fleet():
    model = make_model(profile=Profile(nodes=2, env={"NCCL_DEBUG": "INFO"}))
    (shard,) = desired_shards("n2", [pair()], {"demo": model}, {"n2": facts("n2", A)})
    assert "NCCL_DEBUG" not in shard.env
    assert shard.env["NODE_RANK"] == "1"
