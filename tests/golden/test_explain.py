"""Explanations as operators read them: why a model is short, and what would make it fit."""

from collections.abc import Callable

import msgspec

from llmgw.core.explain import explain
from llmgw.core.explain_text import explain_text
from llmgw.core.planner import plan
from llmgw.core.snapshot import ModelSnapshot, Snapshot
from llmgw.schema.engine import EngineInstall, EngineKind, EngineState
from llmgw.schema.model import ModelStatus, Parked, Profile
from llmgw.schema.node import Intent, Node, Reachability
from llmgw.schema.plan import Claim
from llmgw.schema.replica import ReplicaState
from llmgw.testing.factories import (
    GIB,
    NOW,
    make_allocation,
    make_devices,
    make_model,
    make_node,
    make_replica,
    make_snapshot,
    make_want,
)

Golden = Callable[[str, str], None]
H100 = "h100-80gb"


def gpu_node(name: str, count: int = 8, **fields: object) -> Node:
    return make_node(name, devices=make_devices(count), memory_bytes=512 * GIB, **fields)


def gpu_model(name: str, devices: int, *, nodes: int = 1, replicas: int = 1, **profile: object) -> ModelSnapshot:
    made = Profile(nodes=nodes, devices_per_node=devices, device_class=H100, **profile)
    return make_want(make_model(name, min=replicas, profile=made))


def holding(model: str, node: str, *devices: int, number: int = 0):
    allocation = make_allocation(node, devices=[f"GPU-{H100}-{device}" for device in devices])
    return make_replica(f"r{model}{number}", model=model, allocations=[allocation])


class Script:
    """Asks for explanations and keeps the text."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def explain(self, what: str, snapshot: Snapshot, name: str = "big") -> None:
        model = next(seen for seen in snapshot.models if seen.model.name == name)
        self.parts.append(f"> {what}\n{explain_text(explain(snapshot, model, plan))}")

    def text(self) -> str:
        return "\n\n".join(self.parts)


def test_a_model_that_fits_nowhere_is_told_what_would_help(golden: Golden) -> None:
    script = Script()
    busy = [holding("chat", "n1", 0, 1, 2, 3), holding("embed", "n1", 4, 5)]
    others = [gpu_model("chat", 4), gpu_model("embed", 2)]
    script.explain(
        "eight cards wanted, the only node is half full",
        make_snapshot([gpu_node("n1")], [gpu_model("big", 8), *others], busy),
    )
    script.explain(
        "four cards wanted: one other model is enough",
        make_snapshot([gpu_node("n1")], [gpu_model("big", 4), *others], busy),
    )
    script.explain(
        "a cordoned node would do",
        make_snapshot([gpu_node("n1", 2), gpu_node("n2", intent=Intent.CORDONED)], [gpu_model("big", 8)]),
    )
    faulty = gpu_node("n1")
    first, *rest = faulty.facts.devices
    broken = (msgspec.structs.replace(first, problem="XID 79: fell off the bus"), *rest)
    facts = msgspec.structs.replace(faulty.facts, devices=broken)
    script.explain(
        "a faulty card is in the way",
        make_snapshot([msgspec.structs.replace(faulty, facts=facts)], [gpu_model("big", 8)]),
    )
    cpu = make_want(make_model("big"), claim=Claim(cores=4, memory_bytes=40 * GIB))
    script.explain("more memory wanted than there is", make_snapshot([make_node("n1"), make_node("n2")], [cpu]))
    script.explain("no node at all", make_snapshot([], [gpu_model("big", 8)]))
    golden("explain/room.txt", script.text())


def test_a_model_on_several_nodes_is_told_what_a_fabric_lacks(golden: Golden) -> None:
    script = Script()
    one_each = [gpu_node("a1", fabrics=["ib-a"]), gpu_node("b1", fabrics=["ib-b"]), gpu_node("island")]
    script.explain("free devices, but only across fabrics", make_snapshot(one_each, [gpu_model("big", 8, nodes=2)]))
    cordoned = gpu_node("a2", fabrics=["ib-a"], intent=Intent.CORDONED)
    script.explain(
        "one of the fabric's nodes is cordoned", make_snapshot([*one_each, cordoned], [gpu_model("big", 8, nodes=2)])
    )
    full = gpu_node("a2", fabrics=["ib-a"])
    script.explain(
        "one of the fabric's nodes is in use",
        make_snapshot(
            [*one_each, full], [gpu_model("big", 8, nodes=2), gpu_model("chat", 4)], [holding("chat", "a2", 0, 1, 2, 3)]
        ),
    )
    golden("explain/fabrics.txt", script.text())


def test_what_nodes_lack_is_told_node_by_node(golden: Golden) -> None:
    script = Script()
    old = EngineInstall(kind=EngineKind.LLAMACPP, version="b1", variant="cpu", state=EngineState.READY)
    script.explain(
        "another engine version",
        make_snapshot([gpu_node("n1", engines=(old,))], [gpu_model("big", 1, engine_version="b2")]),
    )
    script.explain(
        "labels nobody has, and a node that is lost",
        make_snapshot(
            [gpu_node("n1"), gpu_node("n2", labels={"zone": "a"}, reachability=Reachability.LOST)],
            [gpu_model("big", 1, node_selector={"zone": "a"})],
        ),
    )
    looked = make_want(make_model("big", created_at=NOW.replace(year=2025)))
    script.explain("weights on no node", make_snapshot([make_node("n1", weights=())], [looked]))
    golden("explain/nodes.txt", script.text())


def test_a_model_that_is_not_short_of_room_is_told_how_it_stands(golden: Golden) -> None:
    script = Script()
    status = ModelStatus(model="big", parked=Parked(failures=5, reason="not a GGUF file", since=NOW))
    script.explain("parked", make_snapshot([make_node()], [make_want(make_model("big"), status=status)]))
    ready = make_replica("rbig", model="big")
    script.explain("as it should be", make_snapshot([make_node()], [make_model("big")], [ready]))
    script.explain("on demand, unasked", make_snapshot([make_node()], [make_model("big", min=0, max=1)]))
    starting = make_replica("rbig", model="big", state=ReplicaState.STARTING)
    script.explain("on its way", make_snapshot([make_node()], [make_model("big")], [starting]))
    failed = make_replica("rbig", model="big", state=ReplicaState.FAILED)
    again = ModelStatus(model="big", failures=2, last_failure="out of memory", retry_at=NOW)
    snapshot = make_snapshot([make_node()], [make_want(make_model("big"), status=again)], [failed])
    script.explain("failing", snapshot)
    script.explain("to be placed", make_snapshot([make_node()], [make_model("big")]))
    draining = make_replica("rold", model="gone", state=ReplicaState.DRAINING, allocations=[_all_memory()])
    want = make_want(make_model("big"), claim=Claim(memory_bytes=20 * GIB))
    script.explain("waiting for room", make_snapshot([make_node()], [want], [draining]))
    golden("explain/standing.txt", script.text())


def _all_memory():
    return make_allocation(memory_bytes=30 * GIB)
