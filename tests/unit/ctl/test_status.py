from llmgw.ctl.status import text
from llmgw.schema.floating import FloatingState
from llmgw.schema.guard.judge import JudgeState, JudgeStatus
from llmgw.schema.store import StoreMember, StoreRole
from llmgw.schema.summary import (
    ClassCounts,
    ControlPlaneMember,
    ControlPlanes,
    ControlPlaneState,
    FabricCounts,
    ModelCounts,
    NodeCounts,
    ParkedModel,
    ReplicaCounts,
    Summary,
)


def test_a_healthy_fleet_is_five_lines():
    summary = Summary(
        version="0.1.0",
        leader="control-1",
        epoch=3,
        nodes=NodeCounts(total=1, ready=1, cordoned=0, draining=0, unreachable=0),
        replicas=ReplicaCounts(ready=1, starting=0, draining=0, failed=0),
        models=ModelCounts(total=1, satisfied=1, short=0),
    )
    assert text(summary) == (
        "control plane  control-1 leads, epoch 3 (llmgw 0.1.0)\n"
        "nodes          1 of 1 ready\n"
        "models         1 of 1 satisfied\n"
        "replicas       1 ready"
    )


def test_everything_that_is_wrong_is_named():
    summary = Summary(
        version="0.1.0",
        nodes=NodeCounts(total=5, ready=2, cordoned=1, draining=1, unreachable=1),
        gpus=(ClassCounts(device_class="h100-80gb", total=16, used=8, unhealthy=1),),
        fabrics=(FabricCounts(fabric="ib-a", nodes=2, nodes_with_weights=1, models_present=3, largest_free_block=8),),
        replicas=ReplicaCounts(ready=1, starting=2, draining=0, failed=1),
        models=ModelCounts(total=3, satisfied=1, short=2),
        unplaceable=("big",),
        parked=(ParkedModel(model="broken", failures=5, reason="not a GGUF file"),),
        store_error="store llmgw on db1: no answer to lease_renew within 1 s",
    )
    assert text(summary) == (
        "control plane  nobody leads: nothing can be changed (llmgw 0.1.0)\n"
        "nodes          2 of 5 ready, 1 cordoned, 1 draining, 1 unreachable\n"
        "devices        h100-80gb: 7 of 16 free, 1 unhealthy\n"
        "fabric         ib-a: 2 nodes, 1 with weights, 3 models present, largest free block 8\n"
        "models         1 of 3 satisfied, 2 short\n"
        "replicas       1 ready, 2 starting, 1 failed\n"
        "store          away: store llmgw on db1: no answer to lease_renew within 1 s\n"
        "unplaceable    big: llmgw ctl model explain big\n"
        "parked         broken after 5 failures: not a GGUF file"
    )


def test_several_control_planes_are_all_named_with_their_addresses():
    members = tuple(
        ControlPlaneMember(
            name=f"control-{number}", address=f"http://10.0.0.{number}:8800", state=state, this=number == 2
        )
        for number, state in enumerate(ControlPlaneState, 1)
    )
    summary = Summary(
        version="0.1.0",
        leader="control-1",
        epoch=3,
        nodes=NodeCounts(total=1, ready=1, cordoned=0, draining=0, unreachable=0),
        replicas=ReplicaCounts(ready=1, starting=0, draining=0, failed=0),
        models=ModelCounts(total=1, satisfied=1, short=0),
        control_planes=ControlPlanes(members=members),
    )
    assert text(summary).splitlines()[:4] == [
        "control plane  control-1 leads, epoch 3 (llmgw 0.1.0)",
        "               control-1  leading, http://10.0.0.1:8800",
        "               control-2  standing by, http://10.0.0.2:8800 (this one)",
        "               control-3  not answering, http://10.0.0.3:8800",
    ]


def test_a_store_and_an_address_in_trouble_are_shown_with_what_to_do():
    planes = ControlPlanes(
        members=(
            ControlPlaneMember(name="cp1", address="http://a", state=ControlPlaneState.LEADING, this=True),
            ControlPlaneMember(name="cp2", address="http://b", state=ControlPlaneState.STANDING_BY, this=False),
        ),
        floating="10.0.0.100",
        floating_up=False,
        floating_state=FloatingState.NOWHERE,
        floating_problem="10.0.0.100 is on no host: look at keepalived on cp1",
    )
    store = (
        StoreMember(name="db1", host="10.0.0.1", role=StoreRole.LEADER, state="running", lag=0),
        StoreMember(
            name="db2", host="10.0.0.2", role=StoreRole.REPLICA, state="running", lag=-1, problem="it is stopping"
        ),
        StoreMember(name="db3", host="10.0.0.3", role=StoreRole.SYNC_STANDBY, state="streaming", lag=12),
    )
    summary = Summary(
        version="0.1.0",
        leader="cp1",
        epoch=3,
        nodes=NodeCounts(total=1, ready=1, cordoned=0, draining=0, unreachable=0),
        replicas=ReplicaCounts(ready=1, starting=0, draining=0, failed=0),
        models=ModelCounts(total=1, satisfied=1, short=0),
        control_planes=planes,
        store=store,
        store_problem="no synchronous standby: what is written now could be lost with the primary",
    )
    assert text(summary) == (
        "control plane  cp1 leads, epoch 3 (llmgw 0.1.0)\n"
        "               cp1  leading, http://a (this one)\n"
        "               cp2  standing by, http://b\n"
        "address        10.0.0.100 nowhere\n"
        "store          db1  leader, running, 10.0.0.1\n"
        "store          db2  replica, running, lag unknown, 10.0.0.2\n"
        "store          db3  sync standby, streaming, 12 bytes behind, 10.0.0.3\n"
        "nodes          1 of 1 ready\n"
        "models         1 of 1 satisfied\n"
        "replicas       1 ready\n"
        "store          no synchronous standby: what is written now could be lost with the primary\n"
        "store          db2: it is stopping\n"
        "address        10.0.0.100 is on no host: look at keepalived on cp1"
    )


def test_a_judge_that_does_not_judge_is_named_with_what_helps():
    judge = JudgeStatus(
        model="guard",
        policies=("p",),
        in_catalog=False,
        is_judge=False,
        replicas_ready=0,
        state=JudgeState.ABSENT,
        text="guard is not in the catalog, and policy p asks it",
        problem="guard is not in the catalog, and policy p asks it",
        remedy="llmgw ctl guard judge enable guard",
    )
    summary = Summary(
        version="0.1.0",
        nodes=NodeCounts(total=1, ready=1, cordoned=0, draining=0, unreachable=0),
        replicas=ReplicaCounts(ready=1, starting=0, draining=0, failed=0),
        models=ModelCounts(total=1, satisfied=1, short=0),
        judges=(judge,),
    )
    assert text(summary).splitlines()[-1] == (
        "judge          guard is not in the catalog, and policy p asks it: llmgw ctl guard judge enable guard"
    )
