import pytest

from llmgw.schema.errors import NotFound
from llmgw.schema.history import HistorySource, SeriesName
from llmgw.schema.report import Load
from llmgw.server.history import KeptHistory
from llmgw.server.services.node_history import NodeHistory


@pytest.fixture
def kept(room):
    return KeptHistory(room.fleet, room.clock)


async def test_without_a_prometheus_the_hour_in_memory_is_all_there_is(room, kept):
    node = await room.put_node()
    room.hear(node, load=Load(age_s=0.0, cpu_percent=5.0))
    kept.look()
    history = await NodeHistory(room.fleet, kept).hour("n1")
    assert (history.source, history.problem) == (HistorySource.MEMORY, None)
    assert [series.name for series in history.series] == [SeriesName.CPU_PERCENT]


async def test_a_node_that_never_measured_has_an_empty_hour(room, kept):
    await room.put_node()
    assert (await NodeHistory(room.fleet, kept).hour("n1")).series == ()


async def test_there_is_no_hour_of_a_node_that_is_not_there(room, kept):
    with pytest.raises(NotFound, match="no node 'n9'"):
        await NodeHistory(room.fleet, kept).hour("n9")


async def test_a_standby_says_that_it_hears_no_node_and_who_does(room, kept):
    await room.put_node()
    room.lease.lose("control-2")
    problem = (await NodeHistory(room.fleet, kept).hour("n1")).problem
    assert problem == "this control plane does not lead and hears no node: control-2 leads and keeps it"
