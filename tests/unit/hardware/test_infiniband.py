import json
from pathlib import Path

import pytest

from llmgw.hardware.infiniband import natural, parse_ports, read_tree

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hardware"
CAPTURES = [*sorted((FIXTURES / "infiniband").glob("*.json")), *(FIXTURES / "synthetic").glob("*.sysfs.json")]


def capture(name):
    return json.loads(next(path for path in CAPTURES if path.name.startswith(name)).read_text())


def lay_out(root, tree):
    for path, content in tree.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_a_tree_on_disk_reads_as_its_capture(tmp_path, path):
    tree = json.loads(path.read_text())
    lay_out(tmp_path, tree)
    assert parse_ports(read_tree(tmp_path)) == parse_ports(tree)


def test_ports_come_by_the_value_of_the_numbers_in_their_names():
    ports = parse_ports(capture("infiniband-two-fabrics"))
    assert [port.hca for port in ports] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10"]
    assert sorted(["eth10", "eth2", "bond0"], key=natural) == ["bond0", "eth2", "eth10"]


def test_what_a_port_says_is_read():
    port = parse_ports(capture("infiniband-two-fabrics"))[0]
    assert (port.hca, port.number, port.state, port.phys_state) == ("mlx5_0", 1, "ACTIVE", "LinkUp")
    assert (port.rate_gbps, port.link_layer, port.sm_lid) == (400.0, "InfiniBand", 1)


def test_omni_path_is_not_taken_for_infiniband_though_it_calls_itself_so():
    layers = {port.hca: port.link_layer for port in parse_ports(capture("opa"))}
    assert layers == {"hfi1_0": "Omni-Path", "mlx4_0": "InfiniBand", "mlx5_0": "InfiniBand"}


def test_odd_and_absent_values_are_unknown_not_wrong():
    tree = {
        "mlx5_0/ports/1/state": "\n",
        "mlx5_0/ports/1/rate": "fast",
        "mlx5_0/ports/1/sm_lid": "none",
        "mlx5_0/ports/nonsense/state": "4: ACTIVE",
    }
    (port,) = parse_ports(tree)
    assert (port.state, port.phys_state, port.rate_gbps, port.link_layer, port.sm_lid) == (None,) * 5


def test_fractions_of_a_gigabit_are_kept():
    (port,) = parse_ports({"mlx4_0/ports/1/rate": "2.5 Gb/sec (1X SDR)"})
    assert port.rate_gbps == 2.5


def test_a_machine_without_adapters_has_none(tmp_path):
    assert parse_ports(read_tree(tmp_path / "absent")) == ()


def test_the_interface_of_the_port_goes_before_those_of_the_adapter(tmp_path):
    lay_out(
        tmp_path,
        {
            "mlx5_0/ports/1/gid_attrs/ndevs/0": "ib0\n",
            "mlx5_0/ports/2/state": "1: DOWN",
            "mlx5_0/device/net/ib0/address": "",
            "mlx5_0/device/net/ib1/address": "",
        },
    )
    first, second = parse_ports(read_tree(tmp_path))
    assert first.interfaces == ("ib0",)
    assert second.interfaces == ("ib0", "ib1")


def test_a_file_that_cannot_be_read_is_left_out(tmp_path):
    lay_out(tmp_path, {"mlx5_0/ports/1/state": "4: ACTIVE"})
    (tmp_path / "mlx5_0/ports/1/rate").mkdir()
    (port,) = parse_ports(read_tree(tmp_path))
    assert (port.state, port.rate_gbps) == ("ACTIVE", None)
