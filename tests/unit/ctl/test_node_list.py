import msgspec
import pytest

from llmgw.ctl.node_list import _table
from llmgw.ctl.output import percent
from llmgw.schema.admin.node import FreeRow, HeldRow, NodeList, NodeRow
from llmgw.schema.report import Load
from llmgw.testing.factories import GIB, NOW, make_node

ROW = NodeRow(
    id="n1",
    state="ready",
    intent="none",
    reachability="connected",
    registered_at=NOW,
    connected=True,
    load=Load(age_s=1.0, cpu_percent=37.4, memory_used_bytes=4 * GIB),
    held=HeldRow(cores=0.0, memory_bytes=0),
    free=FreeRow(memory_bytes=30 * GIB),
    facts=make_node().facts,
)


def test_a_node_shows_how_busy_it_is_beside_what_it_has():
    silent = msgspec.structs.replace(ROW, id="n2", load=None)
    head, one, two = (line.split() for line in _table(NodeList(nodes=(ROW, silent))).splitlines())
    assert head[:7] == ["NODE", "STATE", "CORES", "CPU", "MEMORY", "USED", "FREE"]
    assert " ".join(one[:9]) == "n1 ready 8 37 % 32.0 GiB 4.0 GiB"
    assert " ".join(two[:6]) == "n2 ready 8 - 32.0 GiB"
    assert two[6] == "-"


@pytest.mark.parametrize(("share", "text"), [(None, None), (0.0, "0 %"), (0.2, "<1 %"), (0.6, "1 %"), (99.7, "100 %")])
def test_a_share_that_is_not_nothing_never_shows_as_none(share, text):
    assert percent(share) == text
