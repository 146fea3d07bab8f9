import pytest

from llmgw.schema.engine import EngineKind
from llmgw.schema.errors import InvalidInput
from llmgw.testing.node_kinds import GIB, KINDS, facts_of, kind_named


def test_a_machine_of_eight_cards_on_a_fabric():
    facts = facts_of(kind_named("h100x8"), "n1", fabrics=["ib-a"], weights=["/m.gguf"], door="127.0.0.1:1")
    assert len(facts.devices) == 8
    assert {device.device_class for device in facts.devices} == {"h100-80gb"}
    assert [device.numa_node for device in facts.devices] == [0, 0, 0, 0, 1, 1, 1, 1]
    (fabric,) = facts.fabrics
    assert (fabric.name, len(fabric.hcas), fabric.rate_gbps) == ("ib-a", 8, 400.0)
    assert [weights.path for weights in facts.weights] == ["/m.gguf"]
    assert {install.kind for install in facts.engines} == set(EngineKind)
    assert facts.door == "127.0.0.1:1"


def test_two_fabrics_share_the_adapters_and_have_addresses_of_their_own():
    first, second = facts_of(kind_named("h100x8"), "n1", fabrics=["ib-a", "eth-a"]).fabrics
    assert first.hcas == ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")
    assert second.hcas == ("mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7")
    assert (first.interface, second.interface) == ("ib0", "ib1")
    (other,) = facts_of(kind_named("h100x8"), "n2", fabrics=["ib-a"]).fabrics
    assert len({first.address, second.address, other.address}) == 3


def test_mig_instances_are_devices_of_their_own_with_their_cards_numa_node():
    devices = facts_of(kind_named("h100x8-mig"), "n1").devices
    assert len(devices) == 56
    assert [device.index for device in devices] == list(range(56))
    assert {device.memory_bytes for device in devices} == {10 * GIB}
    assert devices[55].numa_node == 1


def test_device_ids_are_unique_over_the_fleet():
    ids = [device.id for node in ("a", "b") for device in facts_of(kind_named("a100x4"), node).devices]
    assert len(set(ids)) == 8


@pytest.mark.parametrize("name", KINDS)
def test_a_node_of_any_kind_looked_for_weights_and_is_in_a_place_of_its_own(name):
    facts = facts_of(kind_named(name), "n1")
    assert facts.weights == ()
    assert facts.place != facts_of(kind_named(name), "n2").place
    assert facts.host.cores_usable > 0


def test_an_unknown_kind_names_those_there_are():
    with pytest.raises(InvalidInput, match="no kind of node is named 'h900'") as refused:
        kind_named("h900")
    assert refused.value.allowed == tuple(KINDS)
