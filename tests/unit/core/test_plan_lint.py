import msgspec
import pytest

from llmgw.core.plan_lint import lint
from llmgw.schema.model import ModelStatus, Parked, Profile
from llmgw.schema.node import Intent
from llmgw.schema.plan import Claim, Constraint, Placement, Plan, Rejection, Removal, Shortfall
from llmgw.schema.replica import ReplicaState
from llmgw.testing.factories import (
    GIB,
    NOW,
    make_allocation,
    make_devices,
    make_model,
    make_node,
    make_replica,
    make_seen,
    make_snapshot,
    make_want,
)

H100 = "h100-80gb"
CARDS = make_devices(2)
FLEET = (
    make_node("a", devices=CARDS, fabrics=["ib"]),
    make_node("b", devices=CARDS, fabrics=["other"]),
)
DEMO = make_model()


def placed(*allocations, model="demo", revision=1) -> Plan:
    return Plan(placements=(Placement(model=model, revision=revision, allocations=allocations),))


def rules(plan: Plan, *, nodes=FLEET, models=(DEMO,), replicas=()) -> list[str]:
    return sorted({line.split(":")[0] for line in lint(make_snapshot(nodes, models, replicas), plan)})


def gpu(devices: int, nodes: int = 1, **fields):
    profile = Profile(nodes=nodes, devices_per_node=devices, device_class=H100, **fields)
    return make_want(make_model(profile=profile), claim=Claim(devices=devices, device_class=H100))


def test_a_sound_plan_breaks_nothing():
    assert rules(placed(make_allocation("a"))) == []
    assert rules(placed(make_allocation("a", devices=[CARDS[0].id])), models=[gpu(1)]) == []


def test_a_device_held_twice_is_found():
    plan = placed(make_allocation("a", devices=[CARDS[0].id]))
    held = make_replica(model="other", allocations=[make_allocation("a", devices=[CARDS[0].id])])
    assert rules(plan, models=[gpu(1)], replicas=[held]) == ["claims"]
    on_b = make_replica(model="other", allocations=[make_allocation("b", devices=[CARDS[0].id])])
    assert rules(plan, models=[gpu(1)], replicas=[on_b]) == []


def test_an_unhealthy_or_unknown_device_is_found():
    sick = make_node("a", devices=(msgspec.structs.replace(CARDS[0], problem="ECC"),))
    assert rules(placed(make_allocation("a", devices=[CARDS[0].id])), nodes=[sick], models=[gpu(1)]) == ["claims"]
    assert "claims" in rules(placed(make_allocation("a", devices=["GPU-none"])), models=[gpu(1)])


def test_cores_and_memory_beyond_the_node_are_found():
    held = make_replica(model="other", allocations=[make_allocation("a", cores=7, memory_bytes=31 * GIB)])
    assert rules(placed(make_allocation("a", cores=2)), replicas=[held]) == ["claims"]
    assert rules(placed(make_allocation("a", memory_bytes=2 * GIB)), replicas=[held]) == ["claims"]
    assert rules(placed(make_allocation("a", cores=1, memory_bytes=GIB)), replicas=[held]) == []


@pytest.mark.parametrize(
    "node", [make_node("a", intent=Intent.CORDONED), make_seen(make_node("a"), reports=None), make_node("other")]
)
def test_a_node_that_takes_nothing_is_found(node):
    assert rules(placed(make_allocation("a")), nodes=[node]) == ["nodes"]


def test_two_shards_on_one_node_are_found():
    plan = placed(make_allocation("a"), make_allocation("a"))
    assert "nodes" in rules(plan, models=[gpu(0, nodes=2)])


def test_a_replica_that_is_not_whole_is_found():
    one = make_allocation("a", devices=[CARDS[0].id])
    both = make_allocation("a", devices=[card.id for card in CARDS])
    assert rules(placed(one), models=[gpu(1, nodes=2)]) == ["whole"]
    assert rules(placed(both), models=[gpu(1)]) == ["whole"]
    assert rules(placed(one), models=[gpu(1, fabric="ib")]) == ["whole"]


def test_shards_that_share_no_fabric_are_found():
    pair = [msgspec.structs.replace(make_allocation(n, devices=[CARDS[0].id]), fabric="ib") for n in "ab"]
    assert rules(placed(*pair), models=[gpu(1, nodes=2)]) == ["whole"]
    joined = [make_node(n, devices=CARDS, fabrics=["ib"]) for n in "ab"]
    assert rules(placed(*pair), nodes=joined, models=[gpu(1, nodes=2)]) == []


def test_a_device_of_another_class_is_found():
    other = make_devices(1, "l40s-48gb")
    node = make_node("a", devices=other)
    assert rules(placed(make_allocation("a", devices=[other[0].id])), nodes=[node], models=[gpu(1)]) == ["whole"]


def test_a_node_that_lacks_the_weights_is_found():
    assert rules(placed(make_allocation("a")), nodes=[make_node("a", weights=())]) == ["weights"]
    assert rules(placed(make_allocation("a")), nodes=[make_node("a", weights=None)]) == []


def test_models_that_must_not_be_placed_are_found():
    parked = ModelStatus(model="demo", parked=Parked(failures=5, reason="broken", since=NOW))
    plan = placed(make_allocation("a"))
    assert rules(plan, models=[make_want(make_model(), status=parked)]) == ["models"]
    assert rules(plan, models=()) == ["models"]
    assert rules(plan, models=[make_model(revision=2)]) == ["models"]


def test_more_replicas_than_the_maximum_are_found():
    plan = placed(make_allocation("a"))
    here, old = make_allocation("b"), make_replica("rold", revision=0, allocations=[make_allocation("b")])
    assert rules(plan, replicas=[make_replica(allocations=[here])]) == ["models"]
    assert rules(plan, replicas=[make_replica(allocations=[here], state=ReplicaState.DRAINING), old]) == []


def test_removals_must_be_possible_and_have_a_reason():
    def removing(*replicas, reason="scaled down"):
        return Plan(removals=tuple(Removal(replica=name, reason=reason) for name in replicas))

    known = [make_replica("ra"), make_replica("rb", state=ReplicaState.DRAINING)]
    assert rules(removing("ra"), replicas=known) == []
    for plan in (removing("rnone"), removing("rb"), removing("ra", "ra"), removing("ra", reason="")):
        assert rules(plan, replicas=known) == ["removals"]


def test_a_shortfall_tells_one_reason_for_each_node():
    def short(*nodes, model="demo"):
        told = tuple(Rejection(node=n, constraint=Constraint.CORES, detail="needs 9 cores, has 8") for n in nodes)
        return Plan(shortfalls=(Shortfall(model=model, missing=1, sentence="2 nodes: 2 short", rejections=told),))

    assert rules(short("a", "b")) == []
    for plan in (short("a"), short("a", "a"), short("a", "b", "c"), short("a", "b", model="none")):
        assert rules(plan) == ["refusals"]


def test_nothing_goes_to_a_node_that_settles_after_a_silence():
    settling = msgspec.structs.replace(make_seen(FLEET[0]), settling=True)
    assert rules(placed(make_allocation("a")), nodes=[settling, FLEET[1]]) == ["nodes"]
