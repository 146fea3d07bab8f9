from llmgw.console.node_engines import node_engines
from llmgw.schema.admin.replica import ReplicaRow, ShardRow
from llmgw.schema.plan import Allocation
from llmgw.schema.replica import ReplicaState, Restart, ShardPhase
from llmgw.testing.console_rows import a_row
from llmgw.testing.factories import NOW


def replica(name, state=ReplicaState.READY, *, node="n1", progress=None, **fields):
    shard = ShardRow(
        id=f"{name}.0", rank=0, node=node, phase=ShardPhase.READY, progress=progress, allocation=Allocation(node=node)
    )
    return ReplicaRow(
        id=name,
        model=fields.pop("model", "m"),
        revision=1,
        state=state,
        attempt=1,
        created_at=NOW,
        state_since=NOW,
        shards=(shard,),
        **fields,
    )


def test_only_engines_on_the_node_are_given_those_that_do_not_serve_first():
    replicas = [
        replica("r1"),
        replica("r2", ReplicaState.DRAINING),
        replica("r3", ReplicaState.FAILED),
        replica("r4", ReplicaState.STARTING),
        replica("r5", node="n2"),
        replica("r6", model="a"),
    ]
    assert [one.replica.id for one in node_engines(a_row("n1"), replicas)] == ["r3", "r4", "r2", "r6", "r1"]


def test_what_is_told_of_an_engine_is_why_it_failed_else_what_it_does_else_why_it_began_anew():
    restart = Restart(at=NOW, reason="killed by signal 9")
    told = {
        "out of memory": replica("r1", reason="out of memory", progress="loading", restarts=(restart,)),
        "loading": replica("r2", progress="loading", restarts=(restart,)),
        "last restart: killed by signal 9": replica("r3", restarts=(restart,)),
        "": replica("r4"),
    }
    for text, row in told.items():
        assert node_engines(a_row("n1"), [row])[0].told == text
