import pytest

from llmgw.console.harm import Harm
from llmgw.console.trouble import troubles, why_no_figures
from llmgw.schema.device import Device
from llmgw.schema.fabric import Fabric
from llmgw.schema.node import Reachability, Replacement
from llmgw.schema.report import Load, Pressure
from llmgw.schema.weights import Storage, WeightsFolder
from llmgw.testing.console_rows import LOAD, a_row
from llmgw.testing.factories import GIB


def told(row, *, leads=True):
    return [one.text for one in troubles(row, leads=leads)]


def test_a_healthy_node_has_no_trouble():
    assert told(a_row()) == []


@pytest.mark.parametrize("replacement", list(Replacement))
def test_a_silent_node_is_broken_and_says_what_becomes_of_its_replicas(replacement):
    row = a_row(reachability=Reachability.UNREACHABLE, load=None, replacement=replacement)
    (only,) = troubles(row, leads=True)
    assert only.harm is Harm.BROKEN
    assert ("silent" in only.text) or ("together" in only.text)


def test_a_lost_node_is_replaced():
    assert told(a_row(reachability=Reachability.LOST, load=None)) == ["lost: its replicas are replaced elsewhere"]


def test_missing_figures_are_told_by_who_hears_nodes_only():
    row = a_row(load=None)
    assert told(row) == ["no figures: no measurement within the last minute"]
    assert told(row, leads=False) == []
    assert why_no_figures(row, leads=False) == "only the control plane that leads hears nodes"
    assert why_no_figures(a_row(load=None, connected=False), leads=True) == "its agent is not connected"
    assert why_no_figures(a_row(), leads=True) is None


def test_one_silence_is_an_accident_and_two_are_told():
    assert told(a_row(flaps=1)) == []
    assert told(a_row(flaps=2)) == ["fell silent 2 times within ten minutes"]


def test_everything_that_an_agent_says_is_wrong_is_told_the_worst_first():
    row = a_row(
        facts={
            "devices": (Device(id="d", index=3, device_class="h100-80gb", problem="XID 79"),),
            "fabrics": (Fabric(name="ib-a", warnings=("no port is active",)),),
            "storage": (Storage(mount="/w", source="srv:/w", fstype="nfs4", shared=True, problem="does not answer"),),
            "weights_folders": (WeightsFolder(path="/srv", problems=("cannot be read",)),),
            "problems": ("its disk is full",),
        }
    )
    assert told(row) == [
        "its disk is full",
        "device 3: XID 79",
        "fabric ib-a: no port is active",
        "storage /w: does not answer",
        "weights folder /srv: cannot be read",
    ]


def test_memory_that_ends_soon_is_told_with_its_share():
    scarce = Load(age_s=1.0, memory_available_bytes=GIB)
    assert told(a_row(load=scarce)) == ["memory is nearly full: 3.1 % is left"]
    assert told(a_row(load=scarce, facts={"memory_bytes": None})) == []
    assert told(a_row(load=Load(age_s=1.0))) == []


@pytest.mark.parametrize(("percent", "count"), [(9.9, 0), (10.0, 1)])
def test_waiting_for_memory_is_told_from_a_tenth_of_the_time_on(percent, count):
    pressure = Pressure(cpu_percent=0.0, memory_percent=percent, io_percent=0.0)
    load = Load(age_s=1.0, memory_available_bytes=LOAD.memory_available_bytes, pressure=pressure)
    assert len(told(a_row(load=load))) == count
