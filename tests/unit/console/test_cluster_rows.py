import pytest

from llmgw.console.cluster_rows import Choice, Column, Query, choices, cluster_rows, parse, select
from llmgw.schema.admin.node import HeldRow, NodeShard
from llmgw.schema.device import Device
from llmgw.schema.fabric import Fabric
from llmgw.schema.node import Intent, Reachability
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import Load
from llmgw.testing.console_rows import a_row
from llmgw.testing.factories import GIB, make_devices


def names(rows):
    return [row.node.id for row in rows]


def rows(*nodes):
    return cluster_rows(nodes, leads=True)


def test_an_address_that_means_nothing_shows_everything():
    assert parse({}) == Query()
    assert parse({"sort": "colour", "page": "-3", "unknown": "x"}) == Query()
    assert parse({"page": "0"}).page == parse({"page": "1e9"}).page == parse({"page": "1234567"}).page == 1


def test_an_address_is_read_back_as_it_was_written():
    query = parse({"sort": "-cpu", "q": " gpu ", "state": "ready", "fabric": "ib-a", "class": "h100", "page": "3"})
    assert (query.column, query.descending, query.sort) == (Column.CPU, True, "-cpu")
    assert (query.q, query.state, query.fabric, query.device_class, query.page) == ("gpu", "ready", "ib-a", "h100", 3)
    assert query.narrows
    assert not parse({"sort": "-cpu", "page": "2"}).narrows


def test_names_are_ordered_as_people_do():
    found = rows(a_row("gpu-10"), a_row("gpu-2"), a_row("gpu-1"))
    assert names(select(found, Query(column=Column.NAME))) == ["gpu-1", "gpu-2", "gpu-10"]
    assert names(select(found, Query(column=Column.NAME, descending=True))) == ["gpu-10", "gpu-2", "gpu-1"]


def test_what_is_broken_stands_first_and_what_is_well_last():
    found = rows(
        a_row("well"),
        a_row("cordoned", intent=Intent.CORDONED),
        a_row("flaps", flaps=3),
        a_row("lost", reachability=Reachability.LOST, load=None),
    )
    assert names(select(found, Query())) == ["lost", "flaps", "cordoned", "well"]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("column", [Column.CPU, Column.MEMORY, Column.AGE])
def test_what_is_unknown_stands_last_in_either_order(column, descending):
    known = Load(age_s=2.0, cpu_percent=5.0, memory_used_bytes=GIB)
    found = rows(a_row("a", load=None), a_row("b", load=known), a_row("c", load=Load(age_s=1.0)))
    last = names(select(found, Query(column=column, descending=descending)))[-1]
    assert last in ({"a"} if column is Column.AGE else {"a", "c"})


def test_a_search_looks_in_names_labels_classes_models_and_troubles_for_every_word():
    shard = NodeShard(shard="r1.0", replica="r1", model="org/Llama", phase=ShardPhase.READY)
    found = rows(
        a_row("n1", facts={"labels": {"rack": "b2"}, "devices": make_devices(1)}, shards=(shard,)),
        a_row("n2", facts={"problems": ("its disk is full",)}),
        a_row("n3"),
    )
    for words, wanted in (("rack=B2", ["n1"]), ("llama h100", ["n1"]), ("disk full", ["n2"]), ("llama disk", [])):
        assert names(select(found, Query(q=words))) == wanted


def test_filters_narrow_and_offer_only_what_there_is():
    found = rows(
        a_row("n1", facts={"fabrics": (Fabric(name="ib-a"),), "devices": make_devices(2)}),
        a_row("n2", facts={"fabrics": (Fabric(name="ib-b"),)}, intent=Intent.CORDONED),
        a_row("n3", reachability=Reachability.UNREACHABLE, load=None),
    )
    assert choices(found) == {
        "state": (
            Choice(value="trouble", count=1),
            Choice(value="ready", count=1),
            Choice(value="cordoned", count=1),
            Choice(value="unreachable", count=1),
        ),
        "fabric": (Choice(value="ib-a", count=1), Choice(value="ib-b", count=1)),
        "class": (Choice(value="cpu", count=2), Choice(value="h100-80gb", count=1)),
    }
    assert names(select(found, Query(fabric="ib-b"))) == ["n2"]
    assert names(select(found, Query(device_class="cpu"))) == ["n3", "n2"]
    assert names(select(found, Query(state="trouble"))) == ["n3"]
    assert names(select(found, Query(state="cordoned"))) == ["n2"]


def test_an_unhealthy_device_is_neither_free_nor_used():
    good, bad = Device(id="a", index=0, device_class="x"), Device(id="b", index=1, device_class="x", problem="ECC")
    held = HeldRow(cores=0.0, memory_bytes=0, devices=("a", "b"))
    (row,) = rows(a_row(facts={"devices": (good, bad)}, held=held))
    assert (row.devices_used, row.devices_bad) == (1, 1)


def test_models_of_a_node_are_named_once():
    shards = tuple(
        NodeShard(shard=f"r{number}.0", replica=f"r{number}", model="m", phase=ShardPhase.READY) for number in range(3)
    )
    assert rows(a_row(shards=shards))[0].models == ("m",)
