"""Plans as people read them. Each scenario is a script: a fleet, then steps; the text shows every plan."""

from collections.abc import Callable

import msgspec

from llmgw.core.plan_lint import lint
from llmgw.core.plan_text import plan_text
from llmgw.core.planner import plan
from llmgw.core.snapshot import Snapshot
from llmgw.schema.model import ModelStatus, Parked, Profile
from llmgw.schema.node import Intent, Node, Reachability
from llmgw.schema.plan import Claim
from llmgw.schema.replica import ReplicaState
from llmgw.schema.weights import WatchedPath
from llmgw.testing.factories import (
    GIB,
    NOW,
    PATH,
    carried_out,
    make_allocation,
    make_devices,
    make_model,
    make_node,
    make_replica,
    make_seen,
    make_snapshot,
    make_want,
)

Golden = Callable[[str, str], None]
H100 = "h100-80gb"


class Script:
    """Plays steps on a fleet and keeps the text."""

    def __init__(self, title: str, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.text = f"# {title}\n"
        self._plans = 0

    def plan(self, what: str) -> None:
        """Plan, check, carry out, and note what was decided."""
        made = plan(self.snapshot)
        assert lint(self.snapshot, made) == ()
        self._plans += 1
        self.text += f"\n> {what}\n{plan_text(made)}\n"
        self.snapshot = carried_out(self.snapshot, made, prefix=f"rplan{self._plans}")

    def ready(self) -> None:
        """Let all that starts be ready, and all that drains be gone."""
        self.snapshot = msgspec.structs.replace(
            self.snapshot,
            replicas=tuple(
                msgspec.structs.replace(replica, state=ReplicaState.READY)
                if replica.state is ReplicaState.STARTING
                else replica
                for replica in self.snapshot.replicas
                if replica.state is not ReplicaState.DRAINING
            ),
        )

    def change(self, **fields: object) -> None:
        """Change the fleet."""
        self.snapshot = msgspec.structs.replace(self.snapshot, **fields)


def gpu_node(name: str, count: int = 8, *, fabric: str | None = None) -> Node:
    fabrics = () if fabric is None else (fabric,)
    return make_node(name, devices=make_devices(count), memory_bytes=512 * GIB, fabrics=fabrics)


def gpu_model(name: str, devices: int, *, nodes: int = 1, replicas: int = 1, revision: int = 1):
    profile = Profile(nodes=nodes, devices_per_node=devices, device_class=H100)
    return make_want(make_model(name, min=replicas, profile=profile, revision=revision))


def test_one_machine_serves_one_model(golden: Golden) -> None:
    claim = Claim(cores=2, memory_bytes=GIB // 2)
    script = Script("one machine, one model", make_snapshot([make_node()], [make_want(make_model(), claim=claim)]))
    script.plan("the first plan")
    script.plan("while it starts")
    script.ready()
    script.plan("once it is ready")
    golden("plans/one-machine.txt", script.text)


def test_refusals_are_summed_up_for_people(golden: Golden) -> None:
    nodes = [make_node(f"cpu{n}") for n in range(7)]
    nodes += [gpu_node(f"full{n}", 1) for n in range(3)]
    looked = (WatchedPath(path=PATH, present=False),)
    nodes += [make_node(f"bare{n}", devices=make_devices(1), weights=(), watched=looked) for n in range(2)]
    held = [
        make_replica(f"rfull{n}", model="big", allocations=[make_allocation(f"full{n}", devices=[f"GPU-{H100}-0"])])
        for n in range(3)
    ]
    script = Script("twelve nodes and no place", make_snapshot(nodes, [gpu_model("big", 1, replicas=4)], held))
    script.plan("one more than fits")
    script.change(nodes=script.snapshot.nodes[7:8])
    script.change(replicas=script.snapshot.replicas[:1])
    script.plan("a single node, told with its numbers")
    script.change(nodes=())
    script.plan("no node at all")
    golden("plans/refusals.txt", script.text)


def test_a_new_model_waits_for_nodes_to_look_and_report(golden: Golden) -> None:
    unheard = make_seen(make_node("n1", weights=()), reports=None)
    script = Script("evidence first", make_snapshot([unheard], [make_model()]))
    script.plan("the node has not reported yet, nor looked for the weights")
    script.change(nodes=(make_seen(make_node("n1", weights=())),))
    script.plan("it reported, and has not looked")
    looked = (WatchedPath(path=PATH, present=False),)
    script.change(nodes=(make_seen(make_node("n1", weights=(), watched=looked)),))
    script.plan("it looked in vain")
    broken = (WatchedPath(path=PATH, present=True, problem="not a GGUF file"),)
    script.change(nodes=(make_seen(make_node("n1", weights=(), watched=broken)),))
    script.plan("a broken file is there: the start will tell")
    golden("plans/evidence.txt", script.text)


def test_a_replica_on_several_nodes_keeps_to_one_fabric(golden: Golden) -> None:
    nodes = [gpu_node(f"a{n}", fabric="ib-a") for n in range(3)]
    nodes += [gpu_node(f"b{n}", fabric="ib-b") for n in range(2)]
    nodes += [gpu_node("island")]
    script = Script("two fabrics and an island", make_snapshot(nodes, [gpu_model("wide", 8, nodes=2)]))
    script.plan("the tightest fabric is taken")
    script.change(models=(gpu_model("wide", 8, nodes=2, replicas=3),))
    script.plan("two more: one fits, the rest is told")
    golden("plans/fabrics.txt", script.text)


def test_a_changed_model_rolls_without_room(golden: Golden) -> None:
    model = gpu_model("chat", 8, replicas=2)
    script = Script("a roll on a full fleet", make_snapshot([gpu_node("n1"), gpu_node("n2")], [model]))
    script.plan("both replicas of revision 1")
    script.ready()
    script.change(models=(gpu_model("chat", 8, replicas=2, revision=2),))
    for step in range(1, 7):
        script.plan(f"revision 2, step {step}")
        script.plan("nothing more until that is seen")
        script.ready()
    golden("plans/roll-full.txt", script.text)


def test_a_changed_model_rolls_with_room(golden: Golden) -> None:
    script = Script(
        "a roll with room for one more",
        make_snapshot([gpu_node("n1"), gpu_node("n2"), gpu_node("n3")], [gpu_model("chat", 8, replicas=2)]),
    )
    script.plan("both replicas of revision 1")
    script.ready()
    script.change(models=(gpu_model("chat", 8, replicas=2, revision=2),))
    for step in range(1, 5):
        script.plan(f"revision 2, step {step}")
        script.ready()
    golden("plans/roll-surge.txt", script.text)


def test_a_lost_node_is_replaced_and_an_unreachable_one_is_not(golden: Golden) -> None:
    script = Script("a node goes silent", make_snapshot([make_node("n1"), make_node("n2")], [make_model()]))
    script.plan("the first plan")
    script.ready()
    other = make_node("n1"), make_node("n2")
    silent = make_node("n1", reachability=Reachability.UNREACHABLE)
    script.change(nodes=(make_seen(silent), make_seen(other[1])))
    script.plan("n1 is unreachable")
    script.change(nodes=(make_seen(make_node("n1", reachability=Reachability.LOST)), make_seen(other[1])))
    script.plan("n1 is lost")
    script.ready()
    script.plan("the replacement is ready; what was lost with n1 keeps its row")
    script.change(nodes=(make_seen(other[0]), make_seen(other[1])))
    script.plan("n1 is back with its engine: the older replica stays")
    golden("plans/lost-node.txt", script.text)


def test_a_draining_node_hands_its_replicas_over(golden: Golden) -> None:
    script = Script("a drain", make_snapshot([make_node("n1"), make_node("n2")], [make_model()]))
    script.plan("the first plan")
    script.ready()
    draining = make_seen(make_node("n1", intent=Intent.DRAINING))
    script.change(nodes=(draining, make_seen(make_node("n2", intent=Intent.CORDONED))))
    script.plan("n1 drains, n2 is cordoned: it stays and says why")
    script.change(nodes=(draining, make_seen(make_node("n2"))))
    script.plan("n2 is back")
    script.ready()
    script.plan("the new one is ready")
    golden("plans/drain.txt", script.text)


def test_a_parked_model_gives_its_room_to_who_needs_it(golden: Golden) -> None:
    parked = ModelStatus(model="broken", failures=5, parked=Parked(failures=5, reason="not GGUF", since=NOW))
    broken = make_want(make_model("broken"), claim=Claim(memory_bytes=20 * GIB), status=parked)
    corpse = make_replica(
        "rcorpse", model="broken", state=ReplicaState.FAILED, allocations=[make_allocation(memory_bytes=20 * GIB)]
    )
    script = Script("a parked model", make_snapshot([make_node()], [broken], [corpse]))
    script.plan("nobody needs its room")
    script.change(models=(broken, make_want(make_model("other"), claim=Claim(memory_bytes=20 * GIB))))
    script.plan("another model does")
    script.plan("it waits until the room is seen")
    script.ready()
    script.plan("now it has it")
    golden("plans/parked.txt", script.text)


def test_what_is_not_wanted_any_more_is_stopped(golden: Golden) -> None:
    script = Script(
        "less wanted", make_snapshot([make_node("n1"), make_node("n2")], [make_model("a", min=3), make_model("b")])
    )
    script.plan("the first plan")
    script.ready()
    script.change(models=(make_want(make_model("a", min=1)),))
    script.plan("a scaled to 1, b removed")
    script.ready()
    script.change(nodes=script.snapshot.nodes[1:])
    script.plan("n1 removed")
    golden("plans/less.txt", script.text)
