import pytest
from msgspec.structs import replace

from llmgw.schema.errors import NotFound
from llmgw.schema.history import HistorySource, SeriesName
from llmgw.schema.report import Load
from llmgw.server.history import KeptHistory
from llmgw.server.prometheus import Line, PrometheusTrouble
from llmgw.server.prometheus_hour import LINE
from llmgw.server.services.node_history import QUIET_S, NodeHistory


@pytest.fixture
def kept(room):
    return KeptHistory(room.fleet, room.clock)


async def test_without_a_prometheus_the_hour_in_memory_is_all_there_is(room, kept):
    node = await room.put_node()
    room.hear(node, load=Load(age_s=0.0, cpu_percent=5.0))
    kept.look()
    history = await NodeHistory(room.fleet, room.clock, kept).hour("n1")
    assert (history.source, history.problem) == (HistorySource.MEMORY, None)
    assert [series.name for series in history.series] == [SeriesName.CPU_PERCENT]


async def test_a_node_that_never_measured_has_an_empty_hour(room, kept):
    await room.put_node()
    assert (await NodeHistory(room.fleet, room.clock, kept).hour("n1")).series == ()


async def test_there_is_no_hour_of_a_node_that_is_not_there(room, kept):
    with pytest.raises(NotFound, match="no node 'n9'"):
        await NodeHistory(room.fleet, room.clock, kept).hour("n9")


async def test_a_standby_says_that_it_hears_no_node_and_who_does(room, kept):
    await room.put_node()
    room.lease.lose("control-2")
    problem = (await NodeHistory(room.fleet, room.clock, kept).hour("n1")).problem
    assert problem == "this control plane does not lead and hears no node: control-2 leads and keeps it"


class ByHand:
    """A Prometheus that answers, or not, when told."""

    name = "Prometheus at metrics:9090"

    def __init__(self):
        self.trouble = None
        self.lines = ()
        self.asked = 0

    async def range(self, query, *, start, end, step_s):
        self.asked += 1
        if self.trouble:
            raise PrometheusTrouble(f"{self.name} {self.trouble}")
        return tuple(replace(line, values={end: 1.0}) for line in self.lines)


@pytest.fixture
async def heard(room, kept):
    node = await room.put_node()
    room.hear(node, load=Load(age_s=0.0, cpu_percent=5.0))
    kept.look()


@pytest.fixture
def by_hand():
    return ByHand()


@pytest.fixture
def history(room, kept, by_hand):
    return NodeHistory(room.fleet, room.clock, kept, prometheus=by_hand)


CPU = Line(labels={LINE: "cpu_percent"}, values={})


async def test_a_prometheus_that_answers_is_what_is_shown(heard, history, by_hand):
    by_hand.lines = (CPU,)
    found = await history.hour("n1")
    assert (found.source, found.problem) == (HistorySource.PROMETHEUS, None)
    assert found.series[0].points[-1][1] == 1.0


async def test_one_in_trouble_is_told_memory_is_shown_and_it_is_found_again_by_itself(room, heard, history, by_hand):
    by_hand.trouble = "did not answer within 2 s"
    found = await history.hour("n1")
    assert found.source is HistorySource.MEMORY
    assert found.series[0].points[-1][1] == 5.0
    assert found.problem == (
        "Prometheus at metrics:9090 did not answer within 2 s: "
        "the last hour kept by this control plane is shown instead"
    )
    by_hand.trouble, by_hand.lines = None, (CPU,)
    assert (await history.hour("n1")).problem == found.problem
    assert by_hand.asked == 1  # no page waits for one that was just away
    room.clock.advance(QUIET_S)
    assert (await history.hour("n1")).source is HistorySource.PROMETHEUS


async def test_one_that_does_not_know_the_node_is_told_while_memory_does(heard, history, by_hand):
    found = await history.hour("n1")
    assert found.source is HistorySource.MEMORY
    assert "knows nothing of this node, is llmgw its target?" in found.problem


async def test_nothing_to_know_is_no_problem(room, history):
    await room.put_node()
    found = await history.hour("n1")
    assert (found.source, found.problem, found.series) == (HistorySource.PROMETHEUS, None, ())
