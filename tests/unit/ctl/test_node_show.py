import msgspec

from llmgw.ctl.node_show import _text
from llmgw.schema.admin.node import FreeRow, HeldRow, NodeRow
from llmgw.schema.fabric import Fabric
from llmgw.testing.factories import NOW, make_devices, make_node

FABRICS = (
    Fabric(name="ib-a", hcas=("mlx5_0", "mlx5_1"), rate_gbps=400.0, address="10.1.0.7"),
    Fabric(name="rack-7"),
)


def test_devices_and_fabrics_are_told_with_what_is_wrong_with_them():
    devices = list(make_devices(3))
    devices[2] = msgspec.structs.replace(devices[2], problem="XID 79: fell off the bus")
    node = make_node(devices=tuple(devices))
    row = NodeRow(
        id="n1",
        state="ready",
        intent="none",
        reachability="connected",
        registered_at=NOW,
        connected=True,
        held=HeldRow(cores=0.0, memory_bytes=0, devices=(devices[1].id,)),
        free=FreeRow(devices=(devices[0].id,)),
        facts=msgspec.structs.replace(node.facts, fabrics=FABRICS),
    )
    text = _text(row)
    assert "ib-a (mlx5_0, mlx5_1; 10.1.0.7; 400 Gb/s), rack-7" in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "0 h100-80gb free 80.0 GiB GPU-h100-80gb-0 -" in lines
    assert "1 h100-80gb in use 80.0 GiB GPU-h100-80gb-1 -" in lines
    assert "2 h100-80gb unhealthy 80.0 GiB GPU-h100-80gb-2 XID 79: fell off the bus" in lines
