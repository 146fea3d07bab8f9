import json
from pathlib import Path

import pytest

from llmgw.hardware.fabrics import with_ports
from llmgw.hardware.infiniband import parse_ports
from llmgw.schema.fabric import Fabric, Port

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hardware"


def capture(name):
    return parse_ports(json.loads((FIXTURES / f"{name}.sysfs.json").read_text()))


H100 = capture("infiniband/h100-8x-ndr400-plus-ethernet-bond")
TWO = capture("synthetic/infiniband-two-fabrics-same-prefix")
ODD = capture("infiniband/opa-hfi1-and-mlx4-qdr-and-mlx5")


def fabric(*hcas, **more):
    return Fabric(name="ib-a", hcas=hcas, **more)


def port(hca="mlx5_0", number=1, **more):
    known = {"state": "ACTIVE", "phys_state": "LinkUp", "rate_gbps": 400.0, "link_layer": "InfiniBand", "sm_lid": 1}
    return Port(hca=hca, number=number, **(known | more))


def test_adapters_that_agree_have_a_rate_and_no_warning():
    seen = with_ports(fabric("mlx5_0", "mlx5_1", "mlx5_9"), H100)
    assert seen.rate_gbps == 400.0
    assert [one.hca for one in seen.ports] == ["mlx5_0", "mlx5_1", "mlx5_9"]
    assert seen.warnings == ()


def test_a_name_means_that_adapter_and_none_that_begins_the_same():
    seen = with_ports(fabric("mlx5_1"), TWO)
    assert [one.hca for one in seen.ports] == ["mlx5_1"], "mlx5_10 is another one, and it is down"
    assert seen.warnings == ()


def test_equal_prefixes_prove_nothing_so_two_fabrics_stay_two():
    first, second = with_ports(fabric("mlx5_0"), TWO), with_ports(fabric("mlx5_2"), TWO)
    assert (first.rate_gbps, second.rate_gbps) == (400.0, 200.0)
    assert first.warnings == second.warnings == ()


def test_the_slowest_active_port_counts_and_a_dead_one_does_not():
    seen = with_ports(fabric("mlx5_0", "mlx5_2", "mlx5_10"), TWO)
    assert seen.rate_gbps == 200.0, "the 10 Gb/s of mlx5_10 are no capacity: it is down"
    assert seen.warnings == (
        "mlx5_10:1 is DOWN, Disabled",
        "rates differ: 400 Gb/s on mlx5_0:1; 200 Gb/s on mlx5_2:1: the slowest counts",
    )


def test_an_ethernet_bond_among_infiniband_adapters_is_told():
    seen = with_ports(fabric("mlx5_0", "mlx5_bond_0"), H100)
    assert seen.warnings[0] == (
        "link layers differ: InfiniBand on mlx5_0:1; Ethernet on mlx5_bond_0:1: these cannot reach one another"
    )


def test_omni_path_beside_infiniband_is_told():
    seen = with_ports(fabric("hfi1_0", "mlx5_0"), ODD)
    assert "Omni-Path on hfi1_0:1; InfiniBand on mlx5_0:1" in seen.warnings[0]


def test_an_adapter_that_is_not_there_is_told_with_those_that_are():
    seen = with_ports(fabric("mlx5_0", "mlx5_3"), TWO)
    assert seen.warnings == ("mlx5_3 is not on this node: it has mlx5_0, mlx5_1, mlx5_2, mlx5_10",)
    nothing = with_ports(fabric("mlx5_0", "mlx5_1"), ())
    assert nothing.warnings == ("mlx5_0, mlx5_1 are not on this node: it has no InfiniBand or RoCE adapters",)
    assert nothing.rate_gbps is None
    assert nothing.ports == ()


def test_one_port_of_an_adapter_can_be_named():
    ports = (port("mlx4_0", 1), port("mlx4_0", 2, state="DOWN", phys_state="Polling"))
    assert with_ports(fabric("mlx4_0"), ports).warnings == ("mlx4_0:2 is DOWN, Polling",)
    assert with_ports(fabric("mlx4_0:1"), ports).warnings == ()
    assert with_ports(fabric("mlx4_0:3"), ports).warnings == ("mlx4_0:3 is not on this node: it has mlx4_0",)


def test_a_fabric_without_an_active_port_says_so_and_has_no_rate():
    seen = with_ports(fabric("mlx5_10"), TWO)
    assert seen.rate_gbps is None
    assert seen.warnings == ("no port is active: nothing gets through", "mlx5_10:1 is DOWN, Disabled")


def test_what_the_operator_says_of_the_rate_goes_before_what_is_seen():
    assert with_ports(fabric("mlx5_0", rate_gbps=100.0), TWO).rate_gbps == 100.0
    assert with_ports(fabric("mlx5_0", rate_gbps=100.0), TWO).warnings == ()
    more = with_ports(fabric("mlx5_2", rate_gbps=400.0), TWO)
    assert more.rate_gbps == 400.0
    assert more.warnings == ("rate_gbps = 400 is configured, but the slowest active port does 200 Gb/s",)


def test_subnet_managers_that_are_unknown_or_differ_are_told():
    unmanaged = with_ports(fabric("mlx5_0"), [port(sm_lid=0)])
    assert unmanaged.warnings == ("no subnet manager is known to mlx5_0:1 (sm_lid 0): it does not get an address",)
    two = with_ports(fabric("mlx5_0", "mlx5_1"), [port(), port("mlx5_1", sm_lid=7)])
    assert two.warnings == (
        "subnet managers differ: sm_lid 1 on mlx5_0:1; sm_lid 7 on mlx5_1:1: these are on two networks",
    )


def test_ethernet_has_no_subnet_manager_to_miss():
    roce = port(link_layer="Ethernet", sm_lid=0)
    assert with_ports(fabric("mlx5_0"), [roce]).warnings == ()


@pytest.mark.parametrize(("there", "warned"), [({"lo", "ib0"}, False), ({"lo", "eth0"}, True), (None, False)])
def test_an_interface_that_is_not_there_is_told(there, warned):
    seen = with_ports(fabric(interface="ib0"), (), there)
    assert seen.warnings == (("the interface ib0 is not on this node: it has eth0, lo",) if warned else ())


def test_a_fabric_without_adapters_says_nothing_of_any():
    seen = with_ports(Fabric(name="ethernet"), TWO)
    assert (seen.ports, seen.rate_gbps, seen.warnings) == ((), None, ())
