"""What every store promises about fleet tables, keys, settings and events, and about the fence around them."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from llmgw.ports import (
    AppendEvent,
    DeleteAlias,
    DeleteEnrolment,
    DeleteJoinToken,
    DeleteModel,
    DeleteNode,
    DeletePolicy,
    DeleteReplica,
    FleetRows,
    PutAdminToken,
    PutAlias,
    PutApiKey,
    PutEnrolment,
    PutJoinToken,
    PutModel,
    PutNode,
    PutPolicy,
    PutReplica,
    PutSetting,
    PutStatus,
)
from llmgw.schema.alias import Alias, Share
from llmgw.schema.device import Device
from llmgw.schema.errors import Fenced
from llmgw.schema.event import Event, Severity
from llmgw.schema.guard.policy import Policy, StoredPolicy
from llmgw.schema.guard.rule import Action, Rule
from llmgw.schema.identity import Enrolment, JoinToken, Part, Trust
from llmgw.schema.key import AdminRole, AdminToken, ApiKey
from llmgw.schema.lease import Fence
from llmgw.schema.member import Member
from llmgw.schema.model import Model, ModelStatus, Parked, Profile, Role
from llmgw.schema.node import Host, Intent, Node, NodeFacts
from llmgw.schema.plan import Allocation, Constraint, Rejection
from llmgw.schema.replica import Replica, ReplicaState, Restart, Shard, ShardPhase
from llmgw.schema.view import Peer
from llmgw.schema.weights import Weights, WeightsFormat
from llmgw.store.statements import KEPT_EVENTS

AT = datetime(2026, 3, 4, 5, 6, 7, 891_011, tzinfo=UTC)

NODE = Node(
    id="node-ü",
    facts=NodeFacts(
        hostname="n1",
        address="10.0.0.1",
        place="boot:4026531840",
        agent_version="0.1.0",
        host=Host(os="Debian 12", kernel="6.1", machine="x86_64", cores_usable=1.5, cpu_flags=("avx2",)),
        labels={"rack": "7"},
        memory_bytes=2**40,
        devices=(Device(id="GPU-1", index=0, device_class="h100-80gb"),),
        weights=None,
        storage=(),
    ),
    intent=Intent.CORDONED,
    registered_at=AT,
    generation=7,
)
MODEL = Model(
    name="org/modèle:7b",
    source="/weights/m.gguf",
    role=Role.EMBED,
    min=0,
    max=3,
    profile=Profile(cores=2.5, flags={"threads": "2"}, device_class="cpu"),
    created_at=AT,
)
STATUS = ModelStatus(
    model=MODEL.name,
    failures=2,
    retry_at=AT + timedelta(seconds=4),
    parked=Parked(failures=5, reason="not GGUF", since=AT),
    rejections=(Rejection(node="n1", constraint=Constraint.CORES, detail="needs 4.0 cores, 1.5 free"),),
)
REPLICA = Replica(
    id="rabcdefghij",
    model=MODEL.name,
    revision=1,
    state=ReplicaState.READY,
    shards=(
        Shard(
            id="rabcdefghij.0",
            rank=0,
            allocation=Allocation(node="n1", cores=1.0, devices=("GPU-1",)),
            key="le_secret",
            phase=ShardPhase.READY,
            endpoint="http://127.0.0.1:4711",
        ),
    ),
    created_at=AT,
    state_since=AT,
    restarts=(Restart(at=AT, reason="killed by signal 9"),),
)
KEY = ApiKey(id="lk_12345678", hash="ab" * 32, name="app", created_at=AT)
TOKEN = AdminToken(id="lt_12345678", hash="cd" * 32, name="root", role=AdminRole.ADMIN, created_at=AT)
JOIN_TOKEN = JoinToken(
    id="lj_12345678", hash="ef" * 32, part=Part.NODE, name="n1", created_at=AT, created_by=TOKEN.id, expires_at=AT
)
ENROLMENT = Enrolment(part=Part.NODE, name="n1", joined_at=AT)
POLICY = StoredPolicy(
    policy=Policy(name="all", attach="all", rules=(Rule(name="no-keys", secrets="all", action=Action.BLOCK),)),
    changed_at=AT,
)
ALIAS = Alias(name="other", shares=(Share(model="chat", weight=2.0),), fallbacks=("next",), changed_at=AT)
EVERYTHING = (
    PutNode(node=NODE),
    PutModel(model=MODEL),
    PutStatus(status=STATUS),
    PutReplica(replica=REPLICA),
    PutApiKey(key=KEY),
    PutAdminToken(token=TOKEN),
    PutJoinToken(token=JOIN_TOKEN),
    PutEnrolment(enrolment=ENROLMENT),
    PutPolicy(policy=POLICY),
    PutAlias(alias=ALIAS),
    PutSetting(name="hash_key", value="00ff"),
)


def event(kind):
    return Event(at=AT, kind=kind, severity=Severity.INFO, message="It was restarted.", node="n1")


async def test_a_new_store_is_empty(store):
    assert await store.load_fleet() == FleetRows()
    assert await store.load_keys() == ()
    assert await store.load_admin_tokens() == ()
    assert await store.load_trust() == Trust()
    assert await store.load_policies() == ()
    assert await store.load_aliases() == ()
    assert await store.load_settings() == {}
    assert await store.load_events(limit=10) == ()


async def test_what_was_written_is_read_back_equal(store, lead):
    await store.leader(lead("a")).apply(EVERYTHING)

    assert await store.load_fleet() == FleetRows(
        nodes=(NODE,), models=(MODEL,), statuses=(STATUS,), replicas=(REPLICA,)
    )
    assert await store.load_keys() == (KEY,)
    assert await store.load_admin_tokens() == (TOKEN,)
    assert await store.load_trust() == Trust(tokens=(JOIN_TOKEN,), enrolments=(ENROLMENT,))
    assert await store.load_policies() == (POLICY,)
    assert await store.load_aliases() == (ALIAS,)
    assert await store.load_settings() == {"hash_key": "00ff"}


async def test_join_tokens_and_machines_that_joined_can_be_forgotten(store, lead):
    await store.leader(lead("a")).apply(EVERYTHING)
    await store.leader(lead("a")).apply((DeleteJoinToken(id=JOIN_TOKEN.id), DeleteEnrolment(id=ENROLMENT.id)))

    assert await store.load_trust() == Trust()


async def test_policies_are_replaced_and_deleted_by_name(store, lead):
    await store.leader(lead("a")).apply(EVERYTHING)
    changed = replace(POLICY, revision=2)
    await store.leader(lead("a")).apply((PutPolicy(policy=changed),))
    assert await store.load_policies() == (changed,)

    await store.leader(lead("a")).apply((DeletePolicy(name=POLICY.policy.name),))
    assert await store.load_policies() == ()


async def test_aliases_are_replaced_and_deleted_by_name(store, lead):
    await store.leader(lead("a")).apply(EVERYTHING)
    changed = replace(ALIAS, revision=2, fallbacks=())
    await store.leader(lead("a")).apply((PutAlias(alias=changed),))
    assert await store.load_aliases() == (changed,)

    await store.leader(lead("a")).apply((DeleteAlias(name="other"), DeleteAlias(name="nobody")))
    assert await store.load_aliases() == ()


async def test_unknown_stays_unknown_and_none_found_stays_none_found(store, lead):
    looked = Weights(path="/w/a.gguf", size_bytes=1, format=WeightsFormat.GGUF)
    nodes = [
        _node("n1", weights=None, storage=None),
        _node("n2", weights=(), storage=()),
        _node("n3", weights=(looked,), storage=None),
    ]
    await store.leader(lead("a")).apply([PutNode(node=node) for node in nodes])

    assert (await store.load_fleet()).nodes == tuple(nodes)


async def test_a_second_put_replaces_the_first(store, lead):
    writer = store.leader(lead("a"))
    await writer.apply(EVERYTHING)
    changed = ModelStatus(model=MODEL.name, failures=3)
    await writer.apply([PutStatus(status=changed), PutSetting(name="hash_key", value="11")])

    assert (await store.load_fleet()).statuses == (changed,)
    assert await store.load_settings() == {"hash_key": "11"}


async def test_deleting_a_model_deletes_its_status_and_nothing_else(store, lead):
    writer = store.leader(lead("a"))
    await writer.apply(EVERYTHING)
    await writer.apply([DeleteModel(name=MODEL.name)])

    assert await store.load_fleet() == FleetRows(nodes=(NODE,), replicas=(REPLICA,))


async def test_deleting_what_is_absent_changes_nothing(store, lead):
    writer = store.leader(lead("a"))
    await writer.apply(EVERYTHING)
    await writer.apply([DeleteNode(id="x"), DeleteModel(name="x"), DeleteReplica(id="x")])

    fleet = await store.load_fleet()
    assert (fleet.nodes, fleet.models, fleet.replicas) == ((NODE,), (MODEL,), (REPLICA,))


async def test_nodes_and_replicas_can_be_deleted(store, lead):
    writer = store.leader(lead("a"))
    await writer.apply(EVERYTHING)
    await writer.apply([DeleteNode(id=NODE.id), DeleteReplica(id=REPLICA.id)])

    assert await store.load_fleet() == FleetRows(models=(MODEL,), statuses=(STATUS,))


async def test_writes_of_one_transaction_take_effect_in_their_order(store, lead):
    await store.leader(lead("a")).apply(
        [PutNode(node=NODE), DeleteNode(id=NODE.id), PutModel(model=MODEL), PutModel(model=MODEL)]
    )

    assert await store.load_fleet() == FleetRows(models=(MODEL,))


async def test_a_row_deleted_and_put_again_in_one_transaction_is_there(store, lead):
    writer = store.leader(lead("a"))
    await writer.apply(EVERYTHING)
    fresh = ModelStatus(model=MODEL.name)
    await writer.apply([DeleteModel(name=MODEL.name), PutModel(model=MODEL), PutStatus(status=fresh)])

    fleet = await store.load_fleet()
    assert (fleet.models, fleet.statuses) == ((MODEL,), (fresh,))


async def test_rows_come_in_the_order_of_their_ids(store, lead):
    await store.leader(lead("a")).apply([PutNode(node=_node(name)) for name in ("b", "ä", "c", "a-b", "B", "ab", "a")])

    found = [node.id for node in (await store.load_fleet()).nodes]
    assert found == ["B", "a", "a-b", "ab", "b", "c", "ä"], "by code points, whatever language a database speaks"


async def test_events_are_numbered_and_read_newest_first_page_by_page(store, lead):
    writer = store.leader(lead("a"))
    for kind in ("one", "two", "three"):
        await writer.apply([AppendEvent(event=event(kind))])

    newest = await store.load_events(limit=2)
    assert [found.kind for found in newest] == ["three", "two"]
    assert newest[1].seq is not None
    older = await store.load_events(limit=2, before=newest[1].seq)
    assert [found.kind for found in older] == ["one"]
    assert older[0] == Event(
        at=AT, kind="one", severity=Severity.INFO, message="It was restarted.", node="n1", seq=older[0].seq
    )


async def test_only_the_newest_events_are_kept(store, lead):
    writer = store.leader(lead("a"))
    await writer.apply([AppendEvent(event=event("old"))] * 3)
    await writer.apply([AppendEvent(event=event("new"))] * KEPT_EVENTS)

    kept = await store.load_events(limit=KEPT_EVENTS + 10)
    assert len(kept) == KEPT_EVENTS
    assert {found.kind for found in kept} == {"new"}


async def test_without_a_lease_nothing_is_written(store):
    with pytest.raises(Fenced):
        await store.leader(Fence(epoch=1, holder="a")).apply(EVERYTHING)

    assert await store.load_fleet() == FleetRows()


async def test_an_overtaken_leader_writes_nothing(store, lead):
    old = store.leader(lead("a"))
    new = store.leader(lead("b"))

    with pytest.raises(Fenced):
        await old.apply(EVERYTHING)
    assert await store.load_fleet() == FleetRows()
    assert await store.load_settings() == {}
    await new.apply([PutNode(node=NODE)])
    assert (await store.load_fleet()).nodes == (NODE,)


@pytest.mark.parametrize(
    "fence",
    [
        Fence(epoch=1, holder="a"),
        Fence(epoch=3, holder="a"),
        Fence(epoch=2, holder="b"),
    ],
)
async def test_epoch_and_holder_must_both_be_those_of_the_row(store, lead, fence):
    lead("b")
    assert lead("a") == Fence(epoch=2, holder="a")

    with pytest.raises(Fenced):
        await store.leader(fence).apply([PutNode(node=NODE)])
    assert await store.load_fleet() == FleetRows()


async def test_a_leader_that_released_writes_nothing_more(store, lead):
    fence = lead("a")
    lease = store.lease_store()
    assert lease.release("a", fence.epoch)
    await asyncio.to_thread(lease.close)

    with pytest.raises(Fenced):
        await store.leader(fence).apply([PutNode(node=NODE)])
    assert await store.load_fleet() == FleetRows()


async def test_a_transaction_that_breaks_in_the_middle_leaves_nothing(store, lead):
    writer = store.leader(lead("a"))
    broken = PutNode(node=None)  # type: ignore[arg-type]  # a mistake, on purpose

    with pytest.raises(AttributeError):
        await writer.apply([PutModel(model=MODEL), broken])
    assert await store.load_fleet() == FleetRows()
    await writer.apply([PutModel(model=MODEL)])
    assert (await store.load_fleet()).models == (MODEL,)


async def test_an_empty_transaction_still_asks_the_fence(store, lead):
    writer = store.leader(lead("a"))
    await writer.apply([])
    lead("b")

    with pytest.raises(Fenced):
        await writer.apply([])


async def test_many_writers_and_readers_at_once_lose_nothing(store, lead):
    writer = store.leader(lead("a"))
    names = [f"node-{number:02}" for number in range(30)]

    await asyncio.gather(
        *(writer.apply([PutNode(node=_node(name)), AppendEvent(event=event(name))]) for name in names),
        *(store.load_fleet() for _ in range(10)),
    )

    assert [node.id for node in (await store.load_fleet()).nodes] == names
    events = await store.load_events(limit=100)
    assert sorted(found.kind for found in events) == names
    assert len({found.seq for found in events}) == len(names)


async def test_writers_of_the_same_rows_at_once_take_turns(store, lead):
    writer = store.leader(lead("a"))
    settings = [PutSetting(name="first", value="1"), PutSetting(name="last", value="1")]
    written = [settings, settings[::-1]] * 10
    await asyncio.gather(*(writer.apply(writes) for writes in written))
    assert await store.load_settings() == {"first": "1", "last": "1"}


async def test_each_call_is_observed_with_its_error(store, lead, observed):
    writer = store.leader(lead("a"))
    await writer.apply([])
    lead("b")
    with pytest.raises(Fenced):
        await writer.apply([])
    await store.load_keys()

    calls = [(name, code) for name, _, code in observed]
    assert [call for call in calls if not call[0].startswith("lease_")] == [
        ("apply", None),
        ("apply", "fenced"),
        ("load_keys", None),
    ]
    assert ("lease_take", None) in calls
    assert all(seconds >= 0 for _, seconds, _ in observed)


def _node(node_id, **facts):
    return Node(
        id=node_id,
        facts=NodeFacts(
            hostname=node_id,
            address="10.0.0.1",
            place="boot:1",
            agent_version="0.1.0",
            host=Host(os="Debian 12", kernel="6.1", machine="x86_64"),
            **facts,
        ),
        registered_at=AT,
    )


async def test_the_version_grows_with_each_write_of_a_leader_and_with_nothing_else(store, lead):
    fence = lead("a")
    versions = [await store.load_version()]
    await store.leader(fence).apply([PutSetting(name="a", value="1")])
    versions.append(await store.load_version())
    await store.leader(fence).apply([PutNode(node=NODE), PutModel(model=MODEL)])
    versions.append(await store.load_version())
    assert versions == sorted(set(versions))
    with pytest.raises(Fenced):
        await store.leader(Fence(epoch=fence.epoch, holder="stranger")).apply([PutSetting(name="a", value="2")])
    await store.save_member(MEMBER)
    assert await store.load_version() == versions[-1]


MEMBER = Member(
    name="control-1",
    holder="h1",
    api="http://10.0.0.1:8800",
    agents="10.0.0.1:8801",
    version="1.0",
    started_at=AT,
    gateways=(Peer(name="gateway-1", address="10.0.0.1:8004"),),
)


async def test_what_a_control_plane_says_of_itself_needs_no_leader_and_replaces_what_it_said_before(store):
    other = Member(name="control-2", holder="h2", api="http://b", agents="b:1", version="1.0", started_at=AT)
    await store.save_member(other)
    await store.save_member(replace(MEMBER, holder="h0"))
    await store.save_member(MEMBER)
    assert await store.load_members() == (MEMBER, other)
    await store.delete_member("control-2")
    await store.delete_member("control-2")
    assert await store.load_members() == (MEMBER,)


async def test_a_control_plane_may_tell_of_itself_while_an_earlier_word_of_it_is_still_on_its_way(store):
    words = [replace(MEMBER, holder=f"h{number}") for number in range(40)]
    await asyncio.gather(*(store.save_member(word) for word in words))
    (member,) = await store.load_members()
    assert member in words
