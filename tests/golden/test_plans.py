"""Plans as people read them. Each scenario is a script: a fleet, then steps; the text shows every plan."""

from collections.abc import Callable
from datetime import timedelta

import msgspec

from llmgw.core.plan_lint import lint
from llmgw.core.plan_text import plan_text
from llmgw.core.planner import plan
from llmgw.core.snapshot import Snapshot
from llmgw.schema.model import ModelStatus, NodeFailure, Parked, Profile
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


def test_a_node_where_it_failed_of_late(golden: Golden) -> None:
    fleet = [make_node(name) for name in ("n1", "n2", "n3")]
    told = tuple(NodeFailure(node=name, at=NOW) for name in ("n1", "n1", "n2"))
    status = ModelStatus(model="demo", failed_on=told)
    script = Script("Of equal nodes", make_snapshot(fleet, [make_want(make_model(), status=status)]))
    script.plan("it failed twice on n1 and once on n2, within the hour")
    script.change(models=(make_want(make_model("other")),), replicas=())
    script.plan("another model failed nowhere")
    script.change(models=(make_want(make_model(), status=status),), replicas=(), now=NOW + timedelta(hours=1))
    script.plan("an hour later that is forgotten")
    script.change(nodes=tuple(make_seen(node) for node in fleet[:1]), replicas=(), now=NOW)
    script.plan("there is no other node")
    golden("plans/recent-failures.txt", script.text)


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


def test_devices_are_what_they_are_and_nothing_is_sold_twice(golden: Golden) -> None:
    cards = make_devices(2)
    instances = make_devices(3, MIG)
    mixed = make_node("mixed", devices=(*cards, *instances))
    split = tuple(msgspec.structs.replace(device, pool="gpu0/gi1") for device in make_devices(2, CI))
    script = Script(
        "whole cards, MIG instances and what shares their memory",
        make_snapshot(
            [mixed, make_node("split", devices=split)], [class_model("card", H100), class_model("slice", MIG)]
        ),
    )
    script.plan("a model for each class of the mixed node")
    served = script.snapshot.models
    script.change(models=(*served, class_model("pair", MIG, 2)))
    script.plan("two slices in one process: no process sees more than one")
    script.change(models=(*served, class_model("part", CI), class_model("rest", CI)))
    script.plan("two models on two compute instances of one memory: there is room for one")
    foreign = msgspec.structs.replace(cards[0], problem="in use by pid 4711 (python), not ours")
    faulty = msgspec.structs.replace(cards[1], problem="XID 79: fell off the bus")
    script.change(nodes=make_snapshot([make_node("mixed", devices=(foreign, faulty))]).nodes, replicas=())
    script.change(models=(class_model("card", H100),))
    script.plan("one card is in use by somebody else, the other is broken: neither is used")
    golden("plans/devices.txt", script.text)


MIG = "h100-80gb/mig-1g.10gb"
CI = "h200-141gb/mig-1c.3g.71gb"


def class_model(name: str, device_class: str, devices: int = 1):
    profile = Profile(devices_per_node=devices, device_class=device_class)
    return make_want(make_model(name, profile=profile))


def test_a_large_model_waits_for_room_that_smaller_ones_may_not_nibble_at(golden: Golden) -> None:
    small = [make_replica("rsmall", model="gone", allocations=[make_allocation("n1", devices=[f"GPU-{H100}-0"])])]
    script = Script(
        "no starvation", make_snapshot([gpu_node("n1")], [gpu_model("big", 8), gpu_model("tiny", 1)], small)
    )
    script.plan("one card of the only node is about to be free; big is asked first")
    script.plan("the other seven are kept for it")
    script.ready()
    script.plan("now it starts")
    golden("plans/starvation.txt", script.text)


def test_what_is_short_in_a_large_fleet_is_counted_and_the_closest_are_named(golden: Golden) -> None:
    nodes = [gpu_node(f"full{n:02}", 4) for n in range(22)] + [make_node(f"cpu{n}") for n in range(5)]
    held = [
        make_replica(
            f"rfull{n:02}", model="big", allocations=[make_allocation(f"full{n:02}", devices=[f"GPU-{H100}-0"])]
        )
        for n in range(22)
    ]
    snapshot = make_snapshot(nodes, [gpu_model("big", 1, replicas=22), gpu_model("wide", 4)], held)
    (short,) = plan(snapshot).shortfalls
    lines = [f"# twenty-seven nodes\n{short.model}: {short.sentence}"]
    lines += [f"{count.nodes} x {count.constraint}: {count.text}" for count in short.counts]
    lines += [f"{one.node}: {one.detail}" for one in short.rejections]
    golden("plans/large-fleet.txt", "\n".join(lines))
