from datetime import timedelta

import msgspec

from llmgw.core.summary import summarize
from llmgw.schema.model import ModelStatus, Parked, Profile
from llmgw.schema.node import Intent, Reachability
from llmgw.schema.replica import ReplicaState
from llmgw.schema.summary import (
    ClassCounts,
    FabricCounts,
    IdleReplica,
    ModelCounts,
    NodeCounts,
    ParkedModel,
    ReplicaCounts,
)
from llmgw.testing.factories import (
    NOW,
    make_allocation,
    make_devices,
    make_model,
    make_node,
    make_replica,
    make_snapshot,
    make_want,
    make_weights,
)


def summary(nodes=(), models=(), replicas=()):
    return summarize(make_snapshot(nodes, models, replicas), version="1.2.3", leader="control-1", epoch=7)


def test_it_says_who_answers_and_who_leads():
    made = summary()
    assert (made.version, made.leader, made.epoch) == ("1.2.3", "control-1", 7)


def test_lists_with_nothing_to_say_are_left_out():
    text = msgspec.json.encode(summarize(make_snapshot(), version="1", leader=None, epoch=None))
    assert set(msgspec.json.decode(text)) == {"version", "nodes", "replicas", "models"}


def test_lost_nodes_count_as_unreachable():
    nodes = [
        make_node("a"),
        make_node("b", intent=Intent.CORDONED),
        make_node("c", intent=Intent.DRAINING),
        make_node("d", reachability=Reachability.UNREACHABLE),
        make_node("e", reachability=Reachability.LOST),
    ]
    assert summary(nodes).nodes == NodeCounts(total=5, ready=1, cordoned=1, draining=1, unreachable=2)


def test_a_device_is_free_used_or_unhealthy_and_each_class_is_counted_apart():
    cards = make_devices(4)
    broken = (*cards[:3], msgspec.structs.replace(cards[3], problem="XID 79"))
    nodes = [make_node("a", devices=broken + make_devices(2, "h100-80gb/mig-1g.10gb")), make_node("b")]
    held = make_replica(allocations=[make_allocation("a", devices=[cards[0].id, cards[3].id])])
    assert summary(nodes, [make_model()], [held]).gpus == (
        ClassCounts(device_class="h100-80gb", total=4, used=1, unhealthy=1),
        ClassCounts(device_class="h100-80gb/mig-1g.10gb", total=2, used=0, unhealthy=0),
    )


def test_the_same_device_id_on_another_node_is_another_device():
    nodes = [make_node("a", devices=make_devices(1)), make_node("b", devices=make_devices(1))]
    held = make_replica(allocations=[make_allocation("a", devices=[make_devices(1)[0].id])])
    assert summary(nodes, [], [held]).gpus[0].used == 1


def test_a_fabric_counts_copies_once_and_only_wholly_free_ready_nodes():
    cards = make_devices(2)
    broken = (cards[0], msgspec.structs.replace(cards[1], problem="ECC"))
    nodes = [
        make_node("a", devices=cards, fabrics=["ib"], weights=["/m/1", "/m/2"]),
        make_node("b", devices=cards, fabrics=["ib"], weights=["/m/1"]),
        make_node("c", devices=cards, fabrics=["ib"], weights=None, intent=Intent.CORDONED),
        make_node("d", devices=broken, fabrics=["ib"], weights=[]),
        make_node("e", fabrics=["ib", "other"], weights=["/m/3"]),
    ]
    held = make_replica(allocations=[make_allocation("b", devices=[cards[0].id])])
    assert summary(nodes, [], [held]).fabrics == (
        FabricCounts(fabric="ib", nodes=5, nodes_with_weights=3, models_present=3, largest_free_block=1),
        FabricCounts(fabric="other", nodes=1, nodes_with_weights=1, models_present=1, largest_free_block=0),
    )


def test_equal_weights_under_two_paths_are_one_where_their_digest_is_known():
    node = make_node(fabrics=["ib"])
    twice = (make_weights("/m/1", digest="sha256:1"), make_weights("/m/2", digest="sha256:1"))
    node = msgspec.structs.replace(node, facts=msgspec.structs.replace(node.facts, weights=twice))
    assert summary([node]).fabrics[0].models_present == 1


def test_a_path_whose_digest_one_node_has_not_made_yet_is_the_copy_that_others_have():
    known = (make_weights("/m/1", digest="sha256:1"),)
    nodes = [make_node(name, fabrics=["ib"], weights=["/m/1"]) for name in ("a", "b")]
    nodes[0] = msgspec.structs.replace(nodes[0], facts=msgspec.structs.replace(nodes[0].facts, weights=known))
    assert summary(nodes).fabrics[0].models_present == 1


def test_half_downloads_and_other_broken_weights_are_no_weights():
    node = make_node("a", fabrics=["ib"])
    half = (make_weights("/m/1.part", problem="is an unfinished download of 1"),)
    node = msgspec.structs.replace(node, facts=msgspec.structs.replace(node.facts, weights=half))
    (counts,) = summary([node]).fabrics
    assert (counts.nodes_with_weights, counts.models_present) == (0, 0)


def test_replicas_and_models_are_counted_by_what_is_ready_now():
    models = [make_model("enough", min=1), make_model("short", min=2), make_model("none", min=0, max=1)]
    replicas = [
        make_replica("ra", model="enough"),
        make_replica("rb", model="short"),
        make_replica("rc", model="short", state=ReplicaState.STARTING),
        make_replica("rd", model="short", state=ReplicaState.DRAINING),
        make_replica("re", model="short", state=ReplicaState.FAILED),
    ]
    made = summary([make_node("n1")], models, replicas)
    assert made.replicas == ReplicaCounts(ready=2, starting=1, draining=1, failed=1)
    assert made.models == ModelCounts(total=3, satisfied=2, short=1)
    assert made.unplaceable == ()


def test_a_short_model_with_nothing_under_way_or_flagged_so_is_unplaceable():
    flagged = ModelStatus(model="flagged", unplaceable="1 node: full")
    models = [make_want(make_model("flagged", min=2), status=flagged), make_model("bare"), make_model("coming")]
    replicas = [
        make_replica("ra", model="flagged", state=ReplicaState.STARTING),
        make_replica("rb", model="coming", state=ReplicaState.STARTING),
    ]
    assert summary([], models, replicas).unplaceable == ("bare", "flagged")


def test_a_parked_model_is_short_and_says_why():
    status = ModelStatus(model="demo", parked=Parked(failures=5, reason="not GGUF", since=NOW))
    made = summary([make_node()], [make_want(make_model(), status=status)], [make_replica()])
    assert made.models == ModelCounts(total=1, satisfied=0, short=1)
    assert made.parked == (ParkedModel(model="demo", failures=5, reason="not GGUF"),)
    assert made.unplaceable == ()


def test_what_an_older_revision_was_parked_for_is_past():
    status = ModelStatus(model="demo", revision=1, parked=Parked(failures=5, reason="not GGUF", since=NOW))
    made = summary([make_node()], [make_want(make_model(revision=2), status=status)], [make_replica(revision=2)])
    assert made.models.satisfied == 1
    assert made.parked == ()


def test_class_cpu_never_appears_among_the_devices():
    model = make_model(profile=Profile(device_class="cpu"))
    assert summary([make_node()], [model], [make_replica()]).gpus == ()


def test_a_replica_nobody_asked_for_ten_minutes_is_named_with_its_devices():
    ready_at = NOW - timedelta(hours=1)
    replicas = [
        msgspec.structs.replace(one, ready_at=ready_at)
        for one in (
            make_replica("r1", allocations=[make_allocation("a", devices=["d1", "d2"])]),
            make_replica("r2"),
            make_replica("r3"),
            make_replica("r4", state=ReplicaState.DRAINING),
        )
    ]
    new = msgspec.structs.replace(make_replica("r5"), ready_at=NOW - timedelta(minutes=9))
    snapshot = make_snapshot([make_node("a")], [make_model()], [*replicas, new])
    idle_s = {"r1": 600.0, "r2": 599.0, "r4": 4000.0, "r5": 4000.0}
    snapshot = msgspec.structs.replace(snapshot, idle_s=idle_s)
    found = summarize(snapshot, version="1", leader=None, epoch=None).idle_replicas
    assert found == (IdleReplica(id="r1", model="demo", idle_seconds=600, gpus=2),)


def test_the_replica_that_idles_longest_comes_first():
    ready_at = NOW - timedelta(hours=9)
    replicas = [msgspec.structs.replace(make_replica(f"r{n}"), ready_at=ready_at) for n in range(4)]
    snapshot = msgspec.structs.replace(
        make_snapshot([make_node("n1")], [make_model()], replicas),
        idle_s={"r0": 700.0, "r1": 900.0, "r2": 800.0, "r3": 900.0},
    )
    found = summarize(snapshot, version="1", leader=None, epoch=None).idle_replicas
    assert [one.id for one in found] == ["r1", "r3", "r2", "r0"]


def test_a_class_that_a_node_names_is_listed_without_any_device_of_it():
    node = make_node("n1", devices=make_devices(1))
    facts = msgspec.structs.replace(node.facts, device_classes=("h100-80gb/mig-1g.10gb",))
    snapshot = make_snapshot([msgspec.structs.replace(node, facts=facts)])
    assert summarize(snapshot, version="1", leader=None, epoch=None).gpus == (
        ClassCounts(device_class="h100-80gb", total=1, used=0, unhealthy=0),
        ClassCounts(device_class="h100-80gb/mig-1g.10gb", total=0, used=0, unhealthy=0),
    )


def test_devices_that_share_one_memory_are_counted_once_and_held_together():
    devices = tuple(msgspec.structs.replace(device, pool="gi-1") for device in make_devices(2))
    replica = make_replica(allocations=[make_allocation("n1", devices=[devices[1].id])])
    snapshot = make_snapshot([make_node("n1", devices=devices)], [make_model()], [replica])
    assert summarize(snapshot, version="1", leader=None, epoch=None).gpus == (
        ClassCounts(device_class="h100-80gb", total=1, used=1, unhealthy=0),
    )


def test_a_model_is_short_of_what_demand_wants():
    wanted = msgspec.structs.replace(make_want(make_model(min=0, max=2)), wanted=1)
    assert summary(models=[wanted]).models == ModelCounts(total=1, satisfied=0, short=1)
    assert summary(models=[make_model(min=0, max=2)]).models == ModelCounts(total=1, satisfied=1, short=0)
