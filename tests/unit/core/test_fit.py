import msgspec
import pytest

from llmgw.core.feasible import Rooms
from llmgw.core.fit import classes_of, need_of
from llmgw.schema.engine import EngineInstall, EngineKind, EngineState
from llmgw.schema.model import Profile
from llmgw.schema.node import Intent, Reachability
from llmgw.schema.plan import Claim, Constraint
from llmgw.schema.weights import WatchedPath
from llmgw.testing.factories import (
    GIB,
    PATH,
    make_allocation,
    make_devices,
    make_model,
    make_node,
    make_replica,
    make_seen,
    make_want,
)

H100, MIG = "h100-80gb", "h100-80gb/mig-1g.10gb"


def why(node, profile=None, claim=None, *, source=PATH, held=(), heard=True):
    """Give the one refusal of a node, or `None` when a shard fits there."""
    want = make_want(make_model(source=source, profile=profile or Profile()), claim=claim)
    rooms = Rooms([make_seen(node, reports=() if heard else None)], held)
    need = need_of(want)
    found = [rooms.groups(need, name, None).values() for name in classes_of(need, rooms.classes)]
    groups = [group for ranked in found for alike in ranked for group in alike]
    if any(list(group.shelf.fitting(need, group.members, ())) for group in groups):
        return None
    (rejection,) = rooms.rejections(need)
    return rejection.constraint, rejection.detail


def engine(**fields):
    install = EngineInstall(kind=EngineKind.LLAMACPP, version="b1", variant="cpu", state=EngineState.READY)
    return msgspec.structs.replace(install, **fields)


@pytest.mark.parametrize(
    ("node", "word"),
    [
        (make_node(intent=Intent.CORDONED), "cordoned"),
        (make_node(intent=Intent.DRAINING), "draining"),
        (make_node(reachability=Reachability.UNREACHABLE), "unreachable"),
        (make_node(reachability=Reachability.LOST), "lost"),
    ],
)
def test_only_a_ready_node_takes_a_shard(node, word):
    assert why(node) == (Constraint.NOT_READY, word)
    assert why(make_node()) is None


def test_a_node_that_was_not_heard_yet_takes_nothing():
    assert why(make_node(), heard=False) == (Constraint.NOT_READY, "not heard yet")


def test_every_label_asked_for_must_match():
    profile = Profile(node_selector={"zone": "a", "disk": "nvme"})
    assert why(make_node(labels={"zone": "a"}), profile) == (Constraint.SELECTOR, "is not labelled disk=nvme")
    assert why(make_node(labels={"zone": "a", "disk": "nvme", "more": "1"}), profile) is None


def test_the_engine_must_be_there_and_ready():
    assert why(make_node(engines=())) == (Constraint.ENGINE, "has no llamacpp")
    failed = make_node(engines=(engine(state=EngineState.FAILED, reason="no AVX2"),))
    assert why(failed) == (Constraint.ENGINE, "llamacpp is failed: no AVX2")
    assert why(make_node(), Profile(engine_version="b2")) == (Constraint.ENGINE, "has no llamacpp b2")
    assert why(make_node(), Profile(variant="cuda")) == (Constraint.ENGINE, "has no llamacpp cuda")
    assert why(make_node(engines=(engine(version=None, state=EngineState.UNSUPPORTED), engine()))) is None


def test_engines_that_were_not_probed_constrain_nothing():
    node = make_node(engines=())
    facts = msgspec.structs.replace(node.facts, engines_probed=False)
    assert why(msgspec.structs.replace(node, facts=facts)) is None


def test_a_node_that_looked_and_lacks_the_weights_is_out():
    assert why(make_node(weights=())) == (Constraint.WEIGHTS, f"lacks the weights {PATH}")
    assert why(make_node(weights=(PATH + ".old",)))[0] is Constraint.WEIGHTS
    assert why(make_node(weights=(), watched=(WatchedPath(path=PATH, present=False),)))[0] is Constraint.WEIGHTS


def test_a_node_that_was_not_asked_to_look_constrains_nothing_unless_it_looked_there_in_vain():
    assert why(make_node(weights=None)) is None
    assert why(make_node(weights=None, watched=(WatchedPath(path=PATH, present=False),)))[0] is Constraint.WEIGHTS


def test_broken_weights_match_so_that_the_start_tells_the_cause():
    watched = WatchedPath(path=PATH, present=True, problem="truncated")
    assert why(make_node(weights=(), watched=(watched,))) is None


def test_a_source_that_is_no_path_constrains_nothing():
    assert why(make_node(weights=()), source="hf:org/repo@main") is None


def test_devices_of_the_class_must_be_there_healthy_and_free():
    two = make_devices(2)
    claim = Claim(devices=2, device_class=H100)
    assert why(make_node(), claim=claim) == (Constraint.DEVICE_CLASS, f"has no {H100}")
    assert why(make_node(devices=two[:1]), claim=claim) == (Constraint.DEVICE_CLASS, f"has only 1 {H100}")
    held = [make_replica(allocations=[make_allocation(devices=[two[0].id])])]
    assert why(make_node(devices=two), claim=claim, held=held) == (
        Constraint.DEVICES_BUSY,
        f"needs 2 {H100}, 1 free",
    )
    broken = (two[0], msgspec.structs.replace(two[1], problem="XID 79"))
    assert why(make_node(devices=broken), claim=claim) == (
        Constraint.DEVICES_BUSY,
        f"needs 2 {H100}, 1 free, 1 unhealthy (XID 79)",
    )
    assert why(make_node(devices=two), claim=claim) is None


def test_without_a_class_all_devices_are_of_one_class():
    mixed = make_node(devices=make_devices(1) + make_devices(1, "l40s-48gb"))
    assert why(mixed, claim=Claim(devices=2)) == (Constraint.DEVICE_CLASS, "has only 1 device")
    assert why(mixed, claim=Claim(devices=1)) is None


def test_mig_instances_cannot_be_combined():
    node = make_node(devices=make_devices(4, MIG))
    assert why(node, claim=Claim(devices=2, device_class=MIG))[0] is Constraint.DEVICE_CLASS
    assert why(node, claim=Claim(devices=1, device_class=MIG)) is None


def test_class_cpu_claims_no_device():
    assert why(make_node(), claim=Claim(devices=0, device_class="cpu", cores=2)) is None


def test_cores_and_memory_are_claimed_and_told_with_what_is_there():
    held = [make_replica(allocations=[make_allocation(cores=6, memory_bytes=30 * GIB)])]
    assert why(make_node(), claim=Claim(cores=4), held=held) == (Constraint.CORES, "needs 4 cores, 2 free")
    assert why(make_node(), claim=Claim(cores=16)) == (Constraint.CORES, "needs 16 cores, has 8")
    assert why(make_node(), claim=Claim(memory_bytes=12 * GIB), held=held) == (
        Constraint.MEMORY,
        "needs 12.0 GiB of memory, 2.0 GiB free",
    )
    assert why(make_node(), claim=Claim(cores=2, memory_bytes=2 * GIB), held=held) is None


def test_unknown_cores_and_memory_constrain_nothing():
    node = make_node(cores=None, memory_bytes=None)
    assert why(node, claim=Claim(cores=1000, memory_bytes=10**15)) is None


def test_a_node_that_shrank_still_takes_what_claims_nothing():
    held = [make_replica(allocations=[make_allocation(cores=10, memory_bytes=99 * GIB)])]
    assert why(make_node(), claim=Claim(), held=held) is None


def test_a_named_fabric_must_be_attached():
    profile = Profile(fabric="ib-a")
    assert why(make_node(fabrics=["ib-b"]), profile) == (Constraint.FABRIC, "is not in fabric ib-a")
    assert why(make_node(fabrics=["ib-b", "ib-a"]), profile) is None


def test_the_first_constraint_that_applies_is_told():
    node = make_node(intent=Intent.CORDONED, engines=(), weights=())
    assert why(node, claim=Claim(devices=1))[0] is Constraint.NOT_READY
    assert why(make_node(engines=(), weights=()), claim=Claim(devices=1))[0] is Constraint.ENGINE
    assert why(make_node(weights=()), claim=Claim(devices=1))[0] is Constraint.WEIGHTS
    assert why(make_node(), claim=Claim(devices=1, cores=99))[0] is Constraint.DEVICE_CLASS
