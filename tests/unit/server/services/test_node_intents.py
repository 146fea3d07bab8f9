import pytest
from msgspec.structs import replace

from llmgw.ports import PutModel, PutNode
from llmgw.schema.errors import Conflict, NoLeader, NotFound
from llmgw.schema.model import Model
from llmgw.schema.node import Intent, NodeState, Replacement
from llmgw.server.services import node_intents


async def kinds(room):
    return [event.kind for event in reversed(await room.store.load_events(limit=10))]


async def test_a_cordon_is_kept_with_its_reason_and_told_once(room):
    await room.put_node()
    for _ in range(2):
        row = await node_intents.cordon(room.fleet, room.clock, "n1", reason="bad fan", actor="lt_1")
        assert (row.state, row.intent_reason) == (NodeState.CORDONED, "bad fan")
    row = await node_intents.cordon(room.fleet, room.clock, "n1", reason=None, actor="lt_1")
    assert row.intent_reason == "bad fan"
    assert await kinds(room) == ["node.cordoned"]


async def test_an_uncordon_ends_a_cordon_and_a_drain(room):
    await room.put_node()
    await node_intents.cordon(room.fleet, room.clock, "n1", reason=None, actor="lt_1")
    await node_intents.drain(room.fleet, room.clock, "n1", reason=None, dry_run=False, actor="lt_1")
    row = await node_intents.uncordon(room.fleet, room.clock, "n1", actor="lt_1")
    assert (row.state, row.intent_reason) == (NodeState.READY, None)
    assert await kinds(room) == ["node.cordoned", "node.draining", "node.uncordoned"]


async def test_a_dry_run_says_what_would_move_and_changes_nothing(room):
    first, second = await room.put_node("n1"), await room.put_node("n2")
    room.hear(first)
    room.hear(second)
    await room.fleet.write([PutModel(model=Model(name="m", source="hf:o/m@r", created_at=room.clock.now()))])
    await room.put_replica("r1", "m")
    before = room.fleet.rows
    told = await node_intents.drain(room.fleet, room.clock, "n1", reason=None, dry_run=True, actor="lt_1")
    assert [(one.replica, one.to) for one in told.preview.moves] == [("r1", ("n2",))]
    assert (told.dry_run, told.node.intent) == (True, Intent.NONE)
    assert room.fleet.rows is before


async def test_a_connected_node_is_not_removed_and_a_silent_one_is(room):
    node = await room.put_node()
    room.hear(node)
    with pytest.raises(Conflict, match="would join again"):
        await node_intents.remove(room.fleet, room.clock, "n1", actor="lt_1")
    room.live.disconnect("n1")
    await node_intents.remove(room.fleet, room.clock, "n1", actor="lt_1")
    assert room.fleet.rows.nodes == ()
    with pytest.raises(NotFound):
        await node_intents.remove(room.fleet, room.clock, "n1", actor="lt_1")


async def test_held_nodes_are_released_and_others_are_left_alone(room):
    held, free = await room.put_node("n1"), await room.put_node("n2")
    await room.fleet.write([PutNode(node=replace(held, replacement=Replacement.HELD))])
    assert await node_intents.replace_silent(room.fleet, room.clock, actor="lt_1") == ("n1",)
    assert [node.replacement for node in room.fleet.rows.nodes] == [Replacement.RELEASED, free.replacement]
    assert await node_intents.replace_silent(room.fleet, room.clock, actor="lt_1") == ()
    assert await kinds(room) == ["node.released"]


async def test_an_unknown_node_is_said_to_be_unknown(room):
    for call in (node_intents.uncordon, node_intents.remove):
        with pytest.raises(NotFound, match="there is no node 'n9'"):
            await call(room.fleet, room.clock, "n9", actor="lt_1")
    with pytest.raises(NotFound):
        await node_intents.drain(room.fleet, room.clock, "n9", reason=None, dry_run=True, actor="lt_1")


async def test_nobody_who_does_not_lead_changes_an_intent(room):
    await room.put_node()
    room.lease.lose("control-2")
    with pytest.raises(NoLeader):
        await node_intents.cordon(room.fleet, room.clock, "n1", reason=None, actor="lt_1")
