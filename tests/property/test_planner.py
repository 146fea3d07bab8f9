"""Safety of the planner over random fleets, stated in words: each test's name is the promise."""

import random
from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.demand import desired_replicas
from llmgw.core.drain import preview
from llmgw.core.explain import explain
from llmgw.core.feasible import Rooms
from llmgw.core.fit import need_of
from llmgw.core.offer import Offers
from llmgw.core.overtaken import still_true
from llmgw.core.parking import REMEMBERED
from llmgw.core.plan_lint import lint
from llmgw.core.plan_text import told_of
from llmgw.core.planner import LOOKING_TIME, plan
from llmgw.core.refusals import refused
from llmgw.core.shard_env import shard_env
from llmgw.core.snapshot import ModelSnapshot, NodeSnapshot, Snapshot
from llmgw.core.wants import parked
from llmgw.schema.fabric import Fabric
from llmgw.schema.model import ModelStatus, NodeFailure, Parked, Profile
from llmgw.schema.node import Intent, NodeFacts, Reachability
from llmgw.schema.plan import Claim
from llmgw.schema.replica import Replica, ReplicaState
from llmgw.schema.weights import WatchedPath
from llmgw.testing.factories import (
    GIB,
    NOW,
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

CLASSES = ("h100-80gb", "l40s-48gb", "h100-80gb/mig-1g.10gb")
PATHS = ("/models/a", "/models/b")


@st.composite
def node(draw: st.DrawFn, name: str) -> NodeSnapshot:
    devices = tuple(
        msgspec.structs.replace(
            device,
            problem="ECC" if draw(st.integers(0, 9)) == 0 else None,
            pool=f"pool-{draw(st.integers(0, 1))}" if "/mig-" in device_class and draw(st.booleans()) else None,
        )
        for device_class in draw(st.sets(st.sampled_from(CLASSES), max_size=2))
        for device in make_devices(draw(st.integers(1, 4)), device_class, numa_nodes=draw(st.integers(1, 2)))
    )
    made = make_node(
        name,
        cores=draw(st.sampled_from([None, 2.0, 4.5, 8.0])),
        memory_bytes=draw(st.sampled_from([None, 4 * GIB, 8 * GIB, 8 * GIB + 4096])),
        devices=devices,
        fabrics=draw(st.sets(st.sampled_from(["ib-a", "ib-b"]), max_size=2)),
        weights=draw(st.none() | st.sets(st.sampled_from(PATHS))),
        watched=draw(st.sampled_from([(), (WatchedPath(path=PATHS[0], present=False),)])),
        labels=draw(st.sampled_from([{}, {"zone": "a"}])),
        intent=draw(st.sampled_from([Intent.NONE] * 5 + list(Intent))),
        reachability=draw(st.sampled_from([Reachability.CONNECTED] * 5 + list(Reachability))),
    )
    return make_seen(made, reports=draw(st.sampled_from([(), (), (), None])))


@st.composite
def model(draw: st.DrawFn, name: str) -> ModelSnapshot:
    devices = draw(st.integers(0, 3))
    nodes = draw(st.sampled_from([1, 1, 1, 2]))
    device_class = draw(st.sampled_from([None, *CLASSES])) if devices else draw(st.sampled_from([None, "cpu"]))
    profile = Profile(
        nodes=nodes,
        devices_per_node=devices,
        device_class=device_class,
        fabric=draw(st.sampled_from([None, None, None, "ib-a"])),
        node_selector=draw(st.sampled_from([{}, {}, {"zone": "a"}])),
    )
    claim = Claim(
        cores=draw(st.sampled_from([None, 0.3, 1.0, 4.0])),
        memory_bytes=draw(st.sampled_from([None, GIB, 5 * GIB])),
        devices=devices,
        device_class=device_class,
    )
    revision = draw(st.integers(1, 2))
    status = ModelStatus(model=name, revision=draw(st.sampled_from([revision, revision, 1])))
    if draw(st.integers(0, 5)) == 0:
        status = msgspec.structs.replace(status, parked=Parked(failures=5, reason="broken", since=NOW))
    failures = draw(st.lists(st.sampled_from(["n0", "n1", "n9"]), max_size=3))
    status = msgspec.structs.replace(status, failed_on=tuple(NodeFailure(node=n, at=NOW) for n in failures))
    made = make_model(
        name,
        source=draw(st.sampled_from([*PATHS, "hf:org/repo@main"])),
        min=draw(st.integers(0, 3)),
        max=3,
        revision=revision,
        profile=profile,
    )
    return make_want(made, claim=claim, status=status)


@st.composite
def fleet(draw: st.DrawFn) -> Snapshot:
    """A fleet with a past: what an earlier plan placed, in any state, then nodes and models changed."""
    names = [f"n{number}" for number in range(draw(st.integers(0, 6)))]
    models = [draw(model(f"m{number}")) for number in range(draw(st.integers(0, 5)))]
    past = make_snapshot([draw(node(name)) for name in names], models)
    past = carried_out(past, plan(past))
    replicas = tuple(draw(aged(replica)) for replica in past.replicas)
    nodes = [seen if draw(st.booleans()) else draw(changed(seen)) for seen in past.nodes if draw(st.integers(0, 9))]
    models = [seen if draw(st.booleans()) else draw(model(seen.model.name)) for seen in models]
    models = [seen for seen in models if draw(st.integers(0, 9))]
    return make_snapshot(nodes, models, replicas)


@st.composite
def aged(draw: st.DrawFn, replica: Replica) -> Replica:
    state = draw(st.sampled_from([ReplicaState.READY] * 3 + list(ReplicaState)))
    return msgspec.structs.replace(replica, state=state, revision=draw(st.sampled_from([replica.revision, 1])))


@st.composite
def changed(draw: st.DrawFn, seen: NodeSnapshot) -> NodeSnapshot:
    after = draw(node(seen.node.id))
    return (
        after
        if draw(st.booleans())
        else make_seen(
            msgspec.structs.replace(seen.node, reachability=after.node.reachability, intent=after.node.intent),
            reports=after.reports,
        )
    )


@given(fleet(), model("one"))
def test_refusals_counted_are_those_of_every_single_node(snapshot: Snapshot, want: ModelSnapshot) -> None:
    rooms, need = Rooms(snapshot.nodes, snapshot.replicas), need_of(want)
    singly = Counter((one.constraint, told_of(one.constraint, one.detail)) for one in rooms.rejections(need))
    assert {(count.constraint, count.text): count.nodes for count in refused(rooms, need).counts} == dict(singly)


@given(fleet(), model("one"))
def test_what_is_explained_adds_up_and_helps(snapshot: Snapshot, want: ModelSnapshot) -> None:
    snapshot = msgspec.structs.replace(snapshot, models=(*snapshot.models, want))
    told = explain(snapshot, want, plan)
    assert told.nodes == len(snapshot.nodes) == told.fitting + sum(sieve.out for sieve in told.sieves)
    assert told.missing == sum(one.missing for one in plan(snapshot).shortfalls if one.model == "one")
    assert bool(told.changes) <= bool(told.missing)
    assert len({change.text for change in told.changes}) == len(told.changes)


@given(fleet())
def test_shards_on_several_nodes_are_given_their_own_fabrics_adapters_and_no_others(snapshot: Snapshot) -> None:
    facts = {seen.node.id: _with_adapters(seen.node.facts, seen.node.id) for seen in snapshot.nodes}
    for replica in carried_out(snapshot, plan(snapshot)).replicas:
        if len(replica.shards) == 1 or any(shard.allocation.node not in facts for shard in replica.shards):
            continue
        for shard in replica.shards:
            env, name = shard_env(replica, shard, facts), f"{shard.allocation.node}-{shard.allocation.fabric}"
            known = {fabric.name for fabric in facts[shard.allocation.node].fabrics}
            if shard.allocation.fabric in known:
                assert env["NCCL_IB_HCA"] == f"={name}-0,{name}-1"
            else:
                assert env["NCCL_IB_DISABLE"] == "1"


def _with_adapters(facts: NodeFacts, node: str) -> NodeFacts:
    fabrics = (
        Fabric(name=fabric.name, hcas=(f"{node}-{fabric.name}-0", f"{node}-{fabric.name}-1"))
        for fabric in facts.fabrics
    )
    return msgspec.structs.replace(facts, fabrics=tuple(fabrics))


@given(fleet(), fleet())
def test_offers_kept_from_other_fleets_change_no_plan(snapshot: Snapshot, other: Snapshot) -> None:
    offers = Offers()
    for one in (snapshot, other, snapshot):
        assert plan(one, offers=offers) == plan(one)


@given(fleet(), fleet())
def test_what_still_stands_of_a_plan_breaks_no_rule_of_counts_and_removals(before: Snapshot, now: Snapshot) -> None:
    standing = still_true(plan(before), before, now)
    broken = [problem for problem in lint(now, standing) if problem.split(":")[0] in {"models", "removals", "refusals"}]
    assert broken == []


@given(fleet())
def test_a_plan_breaks_no_rule(snapshot: Snapshot) -> None:
    assert lint(snapshot, plan(snapshot)) == ()


@given(fleet(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(snapshot: Snapshot, rng: random.Random) -> None:
    shuffled = make_snapshot(
        rng.sample(snapshot.nodes, len(snapshot.nodes)),
        rng.sample(snapshot.models, len(snapshot.models)),
        rng.sample(snapshot.replicas, len(snapshot.replicas)),
    )
    assert plan(shuffled) == plan(snapshot)


@given(fleet())
def test_a_plan_carried_out_leaves_nothing_to_place_or_remove(snapshot: Snapshot) -> None:
    after = plan(carried_out(snapshot, plan(snapshot)))
    assert after.placements == ()
    assert after.removals == ()


@given(fleet())
def test_a_parked_model_gets_nothing_new(snapshot: Snapshot) -> None:
    resting = {seen.model.name for seen in snapshot.models if parked(seen) is not None}
    made = plan(snapshot)
    assert not resting & {placement.model for placement in made.placements}
    assert not resting & {shortfall.model for shortfall in made.shortfalls}


@given(fleet())
def test_no_ready_replica_goes_unless_enough_serve_or_it_makes_room_or_is_orphaned(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    removed = {removal.replica: removal.reason for removal in made.removals}
    known = {seen.node.id for seen in snapshot.nodes}
    for seen in snapshot.models:
        ready = [
            replica
            for replica in snapshot.replicas
            if replica.model == seen.model.name
            and replica.state is ReplicaState.READY
            and all(shard.allocation.node in known for shard in replica.shards)
        ]
        gone = [replica for replica in ready if replica.id in removed and "makes room" not in removed[replica.id]]
        assert not gone or len(ready) - len(gone) >= desired_replicas(seen.model)


@given(fleet(), st.data())
def test_no_healthy_replica_is_stopped_for_a_memory_of_one(snapshot: Snapshot, data: st.DataObject) -> None:
    ready = [replica.id for replica in snapshot.replicas if replica.state is ReplicaState.READY]
    doubtful = frozenset(data.draw(st.sets(st.sampled_from(ready)))) if ready else frozenset()
    snapshot = msgspec.structs.replace(snapshot, doubtful=doubtful)
    removed = {removal.replica: removal.reason for removal in plan(snapshot).removals}
    states = {seen.node.id: seen.state for seen in snapshot.nodes}
    for seen in snapshot.models:
        mine = [one for one in snapshot.replicas if one.model == seen.model.name and one.id in ready]
        mine = [one for one in mine if all(shard.allocation.node in states for shard in one.shards)]
        gone = [one for one in mine if one.id in removed and "makes room" not in removed[one.id]]
        surely = [one for one in mine if one.id not in removed and one.id not in doubtful]
        assert not gone or surely or desired_replicas(seen.model) == 0


@given(fleet())
def test_a_drain_tells_of_each_replica_once_and_moves_nothing_onto_its_node(snapshot: Snapshot) -> None:
    for seen in snapshot.nodes:
        found = preview(snapshot, seen.node.id, plan)
        told = [one.replica for one in (*found.moves, *found.waits, *found.breaks)]
        affected = [
            replica.id
            for replica in snapshot.replicas
            if replica.state is not ReplicaState.DRAINING
            and any(shard.allocation.node == seen.node.id for shard in replica.shards)
        ]
        assert sorted(told) == sorted(affected)
        assert all(seen.node.id not in move.to for move in found.moves)


@given(fleet(), st.integers(0, 2**32))
def test_a_fleet_without_faults_comes_to_rest_with_all_placed_or_all_refusals_told(
    snapshot: Snapshot, seed: int
) -> None:
    rng = random.Random(seed)
    heard = [make_seen(seen.node, reports=seen.reports or ()) for seen in snapshot.nodes]
    snapshot = make_snapshot(heard, snapshot.models, snapshot.replicas, now=NOW + 2 * LOOKING_TIME)
    for turn in range(60):
        made = plan(snapshot)
        assert lint(snapshot, made) == ()
        if not made.placements and not made.removals and not _unsettled(snapshot):
            break
        snapshot = _some_time_later(carried_out(snapshot, made, prefix=f"rturn{turn}"), rng)
    else:
        raise AssertionError("it never comes to rest")
    short = {shortfall.model for shortfall in made.shortfalls}
    for seen in snapshot.models:
        live = sum(r.model == seen.model.name and r.revision == seen.model.revision for r in snapshot.replicas)
        assert live >= desired_replicas(seen.model) or seen.model.name in short or parked(seen)


def _unsettled(snapshot: Snapshot) -> bool:
    return any(r.state in (ReplicaState.STARTING, ReplicaState.DRAINING) for r in snapshot.replicas)


def _some_time_later(snapshot: Snapshot, rng: random.Random) -> Snapshot:
    """Some starting replicas are ready, some draining ones gone."""
    replicas = []
    for replica in snapshot.replicas:
        late = rng.random() < 0.3
        if replica.state is ReplicaState.DRAINING and not late:
            continue
        if replica.state in (ReplicaState.STARTING, ReplicaState.FAILED) and not late:
            replicas.append(msgspec.structs.replace(replica, state=ReplicaState.READY))
        else:
            replicas.append(replica)
    return msgspec.structs.replace(snapshot, replicas=tuple(replicas))


@given(fleet(), model("one"))
def test_an_empty_node_more_never_makes_a_model_unplaceable(snapshot: Snapshot, want: ModelSnapshot) -> None:
    want = make_want(msgspec.structs.replace(want.model, min=1), claim=want.claim)
    alone = make_snapshot(snapshot.nodes, [want])
    more = make_snapshot([*snapshot.nodes, make_seen(make_node("zz"))], [want])
    if plan(alone).placements:
        assert plan(more).placements


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.sampled_from([1, 2]), st.data())
def test_among_equal_nodes_those_with_the_fewest_recent_failures_are_taken(
    failures: list[int], shards: int, data: st.DataObject
) -> None:
    fleet = [make_node(f"n{number}", fabrics=["ib-a"]) for number in range(len(failures))]
    told = [NodeFailure(node=f"n{n}", at=NOW) for n, count in enumerate(failures) for _ in range(count)]
    status = ModelStatus(model="demo", failed_on=tuple(data.draw(st.permutations(told))))
    made = plan(make_snapshot(fleet, [make_want(make_model(profile=Profile(nodes=shards)), status=status)]))
    if len(failures) < shards:
        assert made.placements == ()
        return
    taken = {allocation.node for allocation in made.placements[0].allocations}
    assert taken == set(sorted((node.id for node in fleet), key=lambda n: (failures[int(n[1:])], n))[:shards])
    forgotten = make_snapshot(fleet, [make_want(make_model(), status=status)], now=NOW + REMEMBERED)
    assert plan(forgotten).placements[0].allocations[0].node == "n0"


@given(fleet(), model("one"), st.lists(st.sampled_from([f"n{number}" for number in range(6)]), max_size=8))
def test_failures_never_make_a_model_unplaceable(snapshot: Snapshot, want: ModelSnapshot, nodes: list[str]) -> None:
    want = make_want(msgspec.structs.replace(want.model, min=1), claim=want.claim)
    told = tuple(NodeFailure(node=node, at=NOW) for node in nodes)
    failed = msgspec.structs.replace(want, status=msgspec.structs.replace(want.status, failed_on=told))
    assert bool(plan(make_snapshot(snapshot.nodes, [want])).placements) == bool(
        plan(make_snapshot(snapshot.nodes, [failed])).placements
    )


@given(st.integers(1, 24), st.integers(1, 6))
def test_small_replicas_fill_nodes_one_after_the_other(wants: int, nodes: int) -> None:
    profile = Profile(devices_per_node=1, device_class="h100-80gb")
    fleet = [make_node(f"n{number}", devices=make_devices(8)) for number in range(nodes)]
    made = plan(make_snapshot(fleet, [make_want(make_model(f"m{n:02}", profile=profile)) for n in range(wants)]))
    placed = min(wants, nodes * 8)
    assert len(made.placements) == placed
    assert len({placement.allocations[0].node for placement in made.placements}) == -(-placed // 8)


@given(st.integers(2, 4), st.integers(1, 8))
def test_a_replica_on_several_nodes_is_whole_on_one_fabric_or_nowhere(nodes: int, devices: int) -> None:
    fleet = [
        make_node(f"{fabric}{number}", devices=make_devices(8), fabrics=[f"ib-{fabric}"])
        for fabric, size in (("a", 3), ("b", 2))
        for number in range(size)
    ]
    profile = Profile(nodes=nodes, devices_per_node=devices, device_class="h100-80gb")
    made = plan(make_snapshot(fleet, [make_want(make_model(profile=profile))]))
    if nodes > 3:
        assert made.placements == ()
        assert made.shortfalls[0].sentence.startswith("5 nodes: 5 too few in one fabric")
        return
    allocations = made.placements[0].allocations
    assert len({allocation.node[0] for allocation in allocations}) == 1
    assert [len(allocation.devices) for allocation in allocations] == [devices] * nodes


def test_unknown_memory_and_cores_constrain_nothing() -> None:
    unknown = make_node("n1", cores=None, memory_bytes=None)
    want = make_want(make_model(min=3), claim=Claim(cores=64, memory_bytes=512 * GIB))
    held = make_replica("rother", model="other", allocations=[make_allocation(cores=32, memory_bytes=GIB)])
    other = make_want(make_model("other"))
    assert len(plan(make_snapshot([unknown], [want, other], [held])).placements) == 3
