from datetime import UTC, datetime

import pytest

from llmgw.schema.errors import InvalidInput, NoLeader
from llmgw.schema.guard.policy import Attachment, PolicyFile
from llmgw.schema.guard.rule import Action
from llmgw.server.services import policies
from llmgw.testing.guard_policies import policy, rule


def file(*stored):
    return PolicyFile(policies=tuple(one.policy for one in stored))


async def _apply(room, *stored):
    return await policies.apply(room.fleet, room.clock, file(*stored), actor="lt_AAAAAAAA")


async def test_a_file_says_all_there_is_to_be_and_revisions_grow_only_with_changes(room):
    told = await _apply(room, policy("a"), policy("b"))
    assert (told.put, told.deleted) == (("a", "b"), ())
    changed = policy("b", rule(action=Action.FLAG))
    told = await _apply(room, policy("a"), changed)
    assert (told.put, told.deleted) == (("b",), ())
    assert {one.policy.name: one.revision for one in await room.store.load_policies()} == {"a": 1, "b": 2}
    told = await _apply(room, changed)
    assert told.deleted == ("a",)
    assert (await _apply(room, changed)).text == "nothing changes"
    kinds = [(event.kind, event.actor) for event in await room.store.load_events(limit=10)]
    assert kinds == [("policy.deleted", "lt_AAAAAAAA"), *[("policy.changed", "lt_AAAAAAAA")] * 3]


async def test_what_is_exported_changes_nothing_when_applied(room):
    await _apply(room, policy("a", rule(judge="g", threshold=0.7)))
    assert policies.export(room.fleet)["policies"][0]["rules"][0]["threshold"] == 0.7
    assert policies.diff(room.fleet, room.clock, file(policy("a", rule(judge="g", threshold=0.7)))).put == ()


async def test_a_file_with_one_wrong_field_changes_nothing_and_names_it(room):
    await _apply(room, policy("a"))
    with pytest.raises(InvalidInput) as refused:
        await _apply(room, policy("b"), policy("c", rule(pattern="(")))
    assert refused.value.field == "policies[1].rules[0].pattern"
    assert [one.policy.name for one in room.fleet.policies] == ["a"]


async def test_a_diff_changes_nothing(room):
    assert policies.diff(room.fleet, room.clock, file(policy("a"))).text.startswith("+ a: new")
    assert room.fleet.policies == ()


async def test_judges_and_keys_that_are_not_there_are_warned_of(room):
    told = await _apply(room, policy("a", rule(judge="g"), attach=Attachment(keys=("lk_missing",))))
    assert told.warnings == (
        "judge g is not in the catalog, and a asks it: llmgw ctl guard judge enable g",
        "policy a names key lk_missing, which nobody has",
    )


async def test_a_control_plane_that_does_not_lead_changes_no_policy(room):
    room.lease.lose("control-2")
    with pytest.raises(NoLeader):
        await _apply(room, policy("a"))


async def test_a_standby_reads_the_policies_that_the_leader_wrote(room):
    await _apply(room, policy("a"))
    await room.fleet.load()
    assert [one.policy.name for one in room.fleet.policies] == ["a"]
    assert room.fleet.policies[0].changed_at < datetime(2100, 1, 1, tzinfo=UTC)
