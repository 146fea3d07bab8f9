import msgspec

from llmgw.ctl.node_drain import text
from llmgw.schema.admin.drain import Drain, DrainBreak, DrainMove, DrainPreview, DrainWait
from llmgw.schema.admin.node import FreeRow, HeldRow, NodeRow
from llmgw.testing.factories import NOW, make_node

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


def test_a_dry_run_says_what_moves_waits_and_breaks():
    preview = DrainPreview(
        moves=(DrainMove(replica="r1", model="a", to=("n2", "n3")), DrainMove(replica="r2", model="a")),
        waits=(DrainWait(replica="r3", model="b", reason="2 nodes: 2 full"),),
        breaks=(DrainBreak(replica="r4", model="c", reason="it starts"),),
    )
    assert text(Drain(node=ROW, dry_run=True, preview=preview)) == (
        "n1 would drain; nothing was changed\n"
        "moves   r1 of a to n2, n3\n"
        "moves   r2 of a to the model's other replicas\n"
        "waits   r3 of b: 2 nodes: 2 full\n"
        "breaks  r4 of c: it starts"
    )


def test_an_empty_node_drains_at_once():
    drain = Drain(node=msgspec.structs.replace(ROW), dry_run=False, preview=DrainPreview())
    assert text(drain) == "n1 drains\nnothing runs on it"
