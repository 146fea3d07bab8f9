from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from llmgw.core.guard.policy_changes import exported, policy_changes, written
from llmgw.schema.guard.policy import Attachment, Policy, PolicyFile, StoredPolicy
from llmgw.schema.guard.rule import Action, FailurePolicy, OnFailure
from llmgw.testing.guard_policies import rule

NOW = datetime(2026, 5, 1, tzinfo=UTC)
A = Policy(name="a", attach="all", rules=(rule(name="x", pattern="one"), rule(name="y", judge="guard")))
B = Policy(name="b", attach=Attachment(keys=("lk_1",)), rules=(rule(),))


def stored(*policies, revision=3):
    return [StoredPolicy(policy=policy, revision=revision, changed_at=NOW) for policy in policies]


def changes(before, *after):
    return policy_changes(before, PolicyFile(policies=after), now=NOW)


def test_the_same_file_again_changes_nothing():
    found = changes(stored(A, B), A, B)
    assert (found.empty, found.text) == (True, "nothing changes")


def test_new_changed_and_deleted_policies_are_told_with_the_fields_that_differ():
    after = replace(
        A,
        priority=5,
        rules=(rule(name="x", pattern="two", action=Action.FLAG), rule(name="z", secrets="all")),
    )
    found = changes(stored(A, B), after, replace(B, name="c"))
    assert found.text.splitlines() == [
        "~ a: revision 4",
        "    priority: 0 -> 5",
        '    ~ rule x: pattern: "one" -> "two"',
        '    ~ rule x: action: "block" -> "flag"',
        '    + rule z: {"name":"z","secrets":"all","action":"block"}',
        "    - rule y",
        "+ c: new, 1 rule",
        "- b: deleted, 1 rule",
    ]
    assert [(one.policy.name, one.revision) for one in found.put] == [("a", 4), ("c", 1)]
    assert found.deleted == ("b",)


def test_another_order_of_rules_is_a_change():
    found = changes(stored(A), replace(A, rules=A.rules[::-1]))
    assert found.text.splitlines()[1] == "    rules: another order"


def test_what_is_exported_applies_without_a_change():
    full = rule(name="f", on_failure=FailurePolicy(timeout=OnFailure.OPEN), timeout_s=3.0)
    before = stored(B, replace(A, rules=(full,)))
    data = written(exported(before))
    again = msgspec.convert(msgspec.json.decode(msgspec.json.encode(data)), PolicyFile)
    assert policy_changes(before, again, now=NOW).empty
    assert data["policies"][0]["rules"] == [
        {"name": "f", "judge": "guard", "action": "block", "timeout_s": 3.0, "on_failure": {"timeout": "open"}}
    ]
