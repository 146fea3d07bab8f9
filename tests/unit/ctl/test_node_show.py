import msgspec

from llmgw.ctl.node_show import _text
from llmgw.schema.admin.node import FreeRow, HeldRow, NodeRow, NodeShard
from llmgw.schema.fabric import Fabric, Port
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import Load, MemoryKind, Pressure, ShardLoad
from llmgw.schema.weights import Weights, WeightsFolder, WeightsFormat
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


def lines_of(row):
    return [" ".join(line.split()) for line in _text(row).splitlines()]


ROW = NodeRow(
    id="n1",
    state="ready",
    intent="none",
    reachability="connected",
    registered_at=NOW,
    connected=True,
    held=HeldRow(cores=0.0, memory_bytes=0),
    free=FreeRow(),
    facts=make_node().facts,
)


def test_how_busy_a_node_and_its_engines_are_is_told_with_its_age():
    used = ShardLoad(
        shard="r1.0",
        cpu_cores=1.234,
        memory_bytes=3 * 1024**3,
        memory_anonymous_bytes=512 * 1024**2,
        memory_kind=MemoryKind.PSS,
    )
    load = Load(
        age_s=3.4,
        cpu_percent=37.4,
        load1=1.5,
        load5=1.0,
        memory_used_bytes=4 * 1024**3,
        memory_available_bytes=12 * 1024**3,
        pressure=Pressure(cpu_percent=0.2, memory_percent=0.0),
        shards=(used,),
    )
    shards = (
        NodeShard(shard="r1.0", replica="r1", model="m", phase=ShardPhase.READY, load=used),
        NodeShard(shard="r2.0", replica="r2", model="m", phase=ShardPhase.STARTING),
    )
    lines = lines_of(msgspec.structs.replace(ROW, load=load, shards=shards))
    assert "load CPU 37 %, memory used 4.0 GiB, available 12.0 GiB, load average 1.5 1 - (3 s ago)" in lines
    assert "pressure tasks waited for CPU <1 %, memory 0 % of the last 10 s" in lines
    assert "r1.0 m ready 1.23 3.0 GiB 512 MiB" in lines
    assert "r2.0 m starting - - -" in lines


def test_a_load_that_is_not_known_is_not_told_but_what_the_node_has_is():
    lines = lines_of(ROW)
    assert not [line for line in lines if line.startswith(("load ", "pressure "))]
    assert [line for line in lines if line.startswith("memory ")]
    assert [line for line in lines if line.startswith("cores ")]


def test_what_is_wrong_with_fabrics_and_folders_of_weights_is_told_first():
    port = Port(hca="mlx5_0", number=1, state="ACTIVE", rate_gbps=400.0, link_layer="InfiniBand", interfaces=("ib0",))
    fabric = Fabric(name="ib-a", hcas=("mlx5_0",), ports=(port,), warnings=("mlx5_1:1 is DOWN, Disabled",))
    folder = WeightsFolder(path="/srv/models", problems=("/srv/models does not answer: what was seen last is shown",))
    facts = msgspec.structs.replace(ROW.facts, fabrics=(fabric,), weights_folders=(folder,))
    lines = lines_of(msgspec.structs.replace(ROW, facts=facts))
    assert "fabric ib-a mlx5_1:1 is DOWN, Disabled" in lines
    assert "weights /srv/models /srv/models does not answer: what was seen last is shown" in lines
    assert "mlx5_0:1 ib-a ACTIVE 400 Gb/s InfiniBand ib0" in lines


def test_weights_are_told_with_their_template_and_digest():
    known = Weights(
        path="/m/a.gguf",
        format=WeightsFormat.GGUF,
        size_bytes=1024**3,
        architecture="llama",
        quantization="Q4_K_M",
        context_length=4096,
        chat_template=True,
        digest="0123456789abcdef" * 4,
    )
    unknown = Weights(path="/m/b", format=WeightsFormat.SAFETENSORS, size_bytes=0, problem="lacks config.json")
    lines = lines_of(msgspec.structs.replace(ROW, facts=msgspec.structs.replace(ROW.facts, weights=(known, unknown))))
    assert "/m/a.gguf 1.0 GiB llama Q4_K_M 4096 chat 0123456789ab -" in lines
    assert next(line for line in lines if line.startswith("/m/b ")).endswith("- - - - - lacks config.json")


def test_what_is_wrong_with_the_node_itself_is_told_before_its_fabrics():
    fabric = Fabric(name="ib-a", hcas=("mlx5_0",), warnings=("mlx5_1:1 is DOWN, Disabled",))
    problem = "the disk of the agent's data_dir /x is full: no engine can be started until there is room"
    facts = msgspec.structs.replace(ROW.facts, fabrics=(fabric,), problems=(problem,))
    lines = lines_of(msgspec.structs.replace(ROW, facts=facts))
    assert lines.index(f"node {problem}") < lines.index("fabric ib-a mlx5_1:1 is DOWN, Disabled")
