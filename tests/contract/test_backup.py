"""Backup and restore over every store: what one took, any other gives back, and nothing else is left."""

import msgspec
import pytest

from llmgw.core import backup
from llmgw.ports import (
    AppendEvent,
    PutAdminToken,
    PutApiKey,
    PutModel,
    PutNode,
    PutReplica,
    PutSetting,
    PutStatus,
    ReplaceAll,
)
from llmgw.schema.backup import Content
from llmgw.schema.errors import Fenced, InvalidInput
from llmgw.schema.event import Event, Severity
from llmgw.schema.key import AdminRole, AdminToken, ApiKey
from llmgw.schema.lease import Fence, LeaseRow
from llmgw.schema.member import Member
from llmgw.schema.model import Model, ModelStatus, Parked
from llmgw.schema.node import Host, Intent, Node, NodeFacts
from llmgw.schema.plan import Allocation
from llmgw.schema.replica import Replica, ReplicaState, Shard
from llmgw.store import tables
from llmgw.store.backup import KINDS, LEFT_OUT, brought_forward, kept
from llmgw.store.memory import MemoryStore
from llmgw.store.migrate import HEAD
from llmgw.testing.clock import FakeClock

NOW = FakeClock().now()


def node(name, **changes):
    facts = NodeFacts(
        hostname=name,
        address="10.0.0.1",
        place=f"boot-{name}:1",
        agent_version="0.1.0",
        host=Host(os="Debian 12", kernel="6.1", machine="x86_64", cores_usable=8.0),
    )
    return Node(id=name, facts=facts, registered_at=NOW, **changes)


def replica(name, model, state):
    shard = Shard(id=f"{name}.0", rank=0, allocation=Allocation(node="n1", cores=2.0), key="le_secret")
    return Replica(id=name, model=model, revision=1, state=state, shards=(shard,), created_at=NOW, state_since=NOW)


def model(name):
    return Model(name=name, source="/w/a.gguf", created_at=NOW)


def event(message):
    return AppendEvent(event=Event(at=NOW, kind="test", severity=Severity.INFO, message=message))


DIRTY = (
    PutNode(node=node("n1", generation=7)),
    PutNode(node=node("n2", intent=Intent.CORDONED)),
    PutModel(model=model("org/chat")),
    PutModel(model=model("broken")),
    PutStatus(
        status=ModelStatus(
            model="broken", revision=1, failures=5, parked=Parked(since=NOW, failures=5, reason="it is not GGUF")
        )
    ),
    PutReplica(replica=replica("rready", "org/chat", ReplicaState.READY)),
    PutReplica(replica=replica("rstarting", "org/chat", ReplicaState.STARTING)),
    PutReplica(replica=replica("rfailed", "broken", ReplicaState.FAILED)),
    PutApiKey(key=ApiKey(id="lk_1", hash="aa", name="client ‘ü’", created_at=NOW)),
    PutAdminToken(token=AdminToken(id="lt_1", hash="bb", name="root", role=AdminRole.ADMIN, created_at=NOW)),
    PutSetting(name="hash_key", value="00ff"),
    event("first"),
    event("second"),
)


def taken(content):
    """Through the file, as an operator would."""
    sealed = backup.seal(content, llmgw="0.1.0", taken_at=NOW, taken_by="c1")
    return brought_forward(backup.read(msgspec.json.encode(sealed)).content)


@pytest.fixture
async def dirty():
    """The content of a store in the middle of things, and what it reads as."""
    store = MemoryStore(FakeClock())
    row = LeaseRow(holder="h", epoch=9, beat=1, released=False, name="c1", address="", renewed_at=NOW)
    store.lease_store().take(None, row)
    await store.leader(Fence(epoch=9, holder="h")).apply(DIRTY)
    return store


async def everything(store):
    return (
        await store.load_fleet(),
        await store.load_keys(),
        await store.load_admin_tokens(),
        await store.load_trust(),
        await store.load_settings(),
        tuple(event.message for event in await store.load_events(limit=100)),
    )


async def test_a_backup_of_any_store_holds_the_same(store, lead, dirty):
    fence = lead("a")
    await store.leader(fence).apply(DIRTY)
    content = await store.dump()
    assert msgspec.structs.replace(content, epoch=9) == await dirty.dump()
    assert content.epoch == fence.epoch
    assert content.schema == HEAD


async def test_a_restored_store_reads_as_the_one_that_was_backed_up_and_has_nothing_else(store, lead, dirty):
    fence = lead("a")
    mine = (
        PutNode(node=node("mine")),
        PutModel(model=model("mine")),
        PutSetting(name="mine", value="1"),
        event("mine"),
    )
    await store.leader(fence).apply(mine)
    version = await store.load_version()
    await store.leader(fence).apply((ReplaceAll(content=taken(await dirty.dump())),))
    assert await everything(store) == await everything(dirty)
    assert await store.load_version() > version


async def test_writes_beside_a_restore_come_after_it_and_events_go_on_being_numbered(store, lead, dirty):
    fence = lead("a")
    await store.leader(fence).apply((event("mine"),))
    content = taken(await dirty.dump())
    writes = (ReplaceAll(content=content), PutSetting(name="observing", value="yes"), event("restored"))
    await store.leader(fence).apply(writes)
    await store.leader(fence).apply((event("later"),))
    found = await store.load_events(limit=100)
    assert [event.message for event in found] == ["later", "restored", "second", "first"]
    assert len({event.seq for event in found}) == 4
    assert (await store.load_settings())["observing"] == "yes"


async def test_a_restore_leaves_out_who_leads_and_which_control_planes_there_are(store, lead, dirty):
    fence = lead("a")
    member = Member(name="c9", holder="h", api="http://c9", agents="", version="0.1.0", started_at=NOW)
    await store.save_member(member)
    await store.leader(fence).apply((ReplaceAll(content=taken(await dirty.dump())),))
    assert await store.load_members() == (member,)
    await store.leader(fence).apply((event("still the leader"),))


async def test_one_who_no_longer_leads_restores_nothing(store, lead, dirty):
    fence = lead("a")
    lead("b")
    before = await everything(store)
    with pytest.raises(Fenced):
        await store.leader(fence).apply((ReplaceAll(content=taken(await dirty.dump())),))
    assert await everything(store) == before


def test_every_table_is_in_backups_or_is_named_with_the_reason_why_not():
    named = {table.name for table in kept()}
    assert named | set(LEFT_OUT) == set(tables.metadata.tables)
    assert not named & set(LEFT_OUT)
    assert all(LEFT_OUT.values())
    bodies = {table.name for table in kept() if "body" in table.columns}
    assert bodies == set(KINDS), "say in store.backup.KINDS what the table's bodies are"


async def test_the_memory_store_has_every_table_of_a_backup(dirty):
    assert set((await dirty.dump()).tables) == {table.name for table in kept()}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda tables: tables["nodes"][0].update(extra="1"), "columns"),
        (lambda tables: tables["nodes"][0].pop("body"), "columns"),
        (lambda tables: tables["nodes"][0].update(body="{}"), "nodes n1"),
        (lambda tables: tables["nodes"][0].update(body=None), "nodes"),
        (lambda tables: tables["nodes"].append(dict(tables["nodes"][0])), "nodes"),
        (lambda tables: tables.update(lease=[]), "lease"),
        (lambda tables: tables.update(wizards=[]), "wizards"),
    ],
)
async def test_rows_that_no_release_wrote_are_refused_by_name(dirty, change, word):
    rows = {name: [dict(row) for row in rows] for name, rows in (await dirty.dump()).tables.items()}
    change(rows)
    content = Content(schema=HEAD, epoch=1, tables={name: tuple(found) for name, found in rows.items()})
    with pytest.raises(InvalidInput, match=word) as refused:
        brought_forward(content)
    assert refused.value.code == "backup_unreadable"
    assert refused.value.hint


def test_a_backup_of_a_newer_schema_is_refused_with_what_to_do():
    with pytest.raises(InvalidInput, match="9999") as refused:
        brought_forward(Content(schema="9999", epoch=1, tables={}))
    assert refused.value.code == "backup_too_new"


async def test_a_backup_of_the_first_schema_is_brought_forward(dirty):
    content = await dirty.dump()
    newer = {"join_tokens", "enrolments", "policies", "aliases"}
    old = {name: rows for name, rows in content.tables.items() if name not in newer}
    found = brought_forward(msgspec.structs.replace(content, schema="0001", tables=old))
    assert found == content
