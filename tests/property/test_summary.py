"""The summary equals a recount that knows nothing of how it is made."""

from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.snapshot import Snapshot
from llmgw.core.summary import summarize
from llmgw.schema.model import ModelStatus, Parked
from llmgw.schema.node import Intent, Reachability
from llmgw.schema.replica import ReplicaState
from llmgw.testing.factories import (
    NOW,
    make_allocation,
    make_devices,
    make_model,
    make_node,
    make_replica,
    make_snapshot,
    make_want,
)


@st.composite
def fleet(draw: st.DrawFn) -> Snapshot:
    nodes = [
        make_node(
            f"n{number}",
            devices=make_devices(draw(st.integers(0, 3)), draw(st.sampled_from(["h100-80gb", "l40s-48gb"]))),
            fabrics=draw(st.sets(st.sampled_from(["ib-a", "ib-b"]))),
            weights=draw(st.none() | st.sets(st.sampled_from(["/m/1", "/m/2"]))),
            intent=draw(st.sampled_from(list(Intent))),
            reachability=draw(st.sampled_from(list(Reachability))),
        )
        for number in range(draw(st.integers(0, 5)))
    ]
    models = []
    for number in range(draw(st.integers(0, 4))):
        name, parked = f"m{number}", Parked(failures=5, reason="broken", since=NOW)
        status = ModelStatus(
            model=name,
            revision=draw(st.integers(1, 2)),
            parked=draw(st.sampled_from([None, None, parked])),
            unplaceable=draw(st.sampled_from([None, "no nodes"])),
        )
        models.append(make_want(make_model(name, min=draw(st.integers(0, 2)), max=3, revision=2), status=status))
    replicas = [
        make_replica(
            f"r{number}",
            model=f"m{draw(st.integers(0, 4))}",
            state=draw(st.sampled_from(list(ReplicaState))),
            allocations=[
                make_allocation(
                    f"n{draw(st.integers(0, 5))}",
                    devices=draw(st.sets(st.sampled_from([f"GPU-h100-80gb-{d}" for d in range(3)]))),
                )
            ],
        )
        for number in range(draw(st.integers(0, 8)))
    ]
    return make_snapshot(nodes, models, replicas)


@given(fleet())
def test_the_summary_equals_a_recount(snapshot: Snapshot) -> None:
    summary = summarize(snapshot, version="1", leader=None, epoch=None)

    shown = [str(seen.state) for seen in snapshot.nodes]
    assert summary.nodes.total == len(shown)
    assert summary.nodes.ready == shown.count("ready")
    assert summary.nodes.cordoned == shown.count("cordoned")
    assert summary.nodes.draining == shown.count("draining")
    assert summary.nodes.unreachable == shown.count("unreachable") + shown.count("lost")

    states = [str(replica.state) for replica in snapshot.replicas]
    counted = summary.replicas
    assert [counted.ready, counted.starting, counted.draining, counted.failed] == [
        states.count(state) for state in ("ready", "starting", "draining", "failed")
    ]

    held = {
        (shard.allocation.node, device)
        for replica in snapshot.replicas
        for shard in replica.shards
        for device in shard.allocation.devices
    }
    cards = [(seen, device) for seen in snapshot.nodes for device in seen.node.facts.devices]
    assert [count.device_class for count in summary.gpus] == sorted({device.device_class for _, device in cards})
    for count in summary.gpus:
        mine = [(seen, device) for seen, device in cards if device.device_class == count.device_class]
        assert count.total == len(mine)
        assert count.used == sum((seen.node.id, device.id) in held for seen, device in mine)
        assert count.unhealthy == 0

    names = sorted({fabric.name for seen in snapshot.nodes for fabric in seen.node.facts.fabrics})
    assert [count.fabric for count in summary.fabrics] == names
    for count in summary.fabrics:
        mine = [s for s in snapshot.nodes if count.fabric in [fabric.name for fabric in s.node.facts.fabrics]]
        assert count.nodes == len(mine)
        assert count.nodes_with_weights == len([seen for seen in mine if seen.node.facts.weights])
        assert count.models_present == len({w.path for seen in mine for w in seen.node.facts.weights or ()})
        assert count.largest_free_block == sum(
            str(seen.state) == "ready"
            and len(seen.node.facts.devices) > 0
            and not any((seen.node.id, device.id) in held for device in seen.node.facts.devices)
            for seen in mine
        )

    short, unplaceable, parked = [], [], []
    lost = {seen.node.id: str(seen.state) == "lost" for seen in snapshot.nodes}
    for seen in snapshot.models:
        mine = [
            replica
            for replica in snapshot.replicas
            if replica.model == seen.model.name
            and not (
                str(replica.state) == "ready"
                and {lost.get(shard.allocation.node) for shard in replica.shards} == {True}
            )
        ]
        ready = [replica for replica in mine if replica.state is ReplicaState.READY]
        is_mine = seen.status.revision == seen.model.revision
        is_parked = is_mine and seen.status.parked is not None
        if is_parked:
            parked.append(seen.model.name)
        if len(ready) < seen.model.min or is_parked:
            short.append(seen.model.name)
            if (is_mine and seen.status.unplaceable) or (not is_parked and len(mine) <= len(ready)):
                unplaceable.append(seen.model.name)
    assert summary.models.total == len(snapshot.models)
    assert summary.models.short == len(short)
    assert summary.models.satisfied == len(snapshot.models) - len(short)
    assert list(summary.unplaceable) == sorted(unplaceable)
    assert [one.model for one in summary.parked] == sorted(parked)
