"""Backups as releases wrote them: each restores for ever. Who adds a migration adds one of its schema."""

from pathlib import Path

import pytest

from llmgw.core import backup
from llmgw.ports import ReplaceAll
from llmgw.schema.lease import Fence, LeaseRow
from llmgw.schema.node import Intent
from llmgw.schema.replica import ReplicaState
from llmgw.store.backup import brought_forward
from llmgw.store.memory import MemoryStore
from llmgw.store.migrate import HEAD
from llmgw.testing.clock import FakeClock

FOLDER = Path(__file__).parent / "backups"
FILES = sorted(FOLDER.glob("schema-*.json"))


def test_there_is_a_backup_of_the_present_schema():
    assert FOLDER / f"schema-{HEAD}.json" in FILES, "add a backup of the new schema beside the older ones"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_backup_of_any_release_restores(file):
    found = backup.read(file.read_bytes())
    assert found.content.schema == file.stem.removeprefix("schema-")
    store = MemoryStore(FakeClock())
    row = LeaseRow(holder="h", epoch=1, beat=1, released=False, name="c", address="", renewed_at=FakeClock().now())
    store.lease_store().take(None, row)
    await store.leader(Fence(epoch=1, holder="h")).apply((ReplaceAll(content=brought_forward(found.content)),))
    rows = await store.load_fleet()
    assert {node.id: node.intent for node in rows.nodes} == {"n1": Intent.NONE, "n2": Intent.CORDONED}
    assert [model.name for model in rows.models] == ["broken", "org/chat"]
    assert {status.model for status in rows.statuses if status.parked} == {"broken"}
    assert {replica.id: replica.state for replica in rows.replicas} == {
        "rready": ReplicaState.READY,
        "rstarting": ReplicaState.STARTING,
        "rfailed": ReplicaState.FAILED,
    }
    assert all(shard.key == "le_secret" for replica in rows.replicas for shard in replica.shards)
    assert [key.name for key in await store.load_keys()] == ["client ‘ü’"]
    assert [token.name for token in await store.load_admin_tokens()] == ["root"]
    assert (await store.load_settings())["hash_key"] == "00ff"
    assert [event.message for event in await store.load_events(limit=9)] == ["second", "first"]
    policies = {stored.policy.name: stored.revision for stored in await store.load_policies()}
    assert policies == ({"secrets": 3} if found.content.schema >= "0004" else {})
    aliases = {alias.name: alias.revision for alias in await store.load_aliases()}
    assert aliases == ({"chat": 2} if found.content.schema >= "0005" else {})
