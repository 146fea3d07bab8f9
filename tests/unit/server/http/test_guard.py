import pytest

from llmgw.ports import PutPolicy
from llmgw.schema.demand import AuditEntry, DemandReport
from llmgw.schema.guard.coverage import Coverage, Outcome
from llmgw.schema.key import AdminRole
from llmgw.testing.guard_policies import policy, rule

FILE = {"policies": [{"name": "p", "attach": "all", "rules": [{"name": "r", "judge": "guard", "action": "block"}]}]}


async def test_a_file_is_applied_and_comes_back_as_it_was_written(admin):
    answer = await admin.put("/api/v1/guard/policies", json=FILE)
    assert answer.status_code == 200
    assert (answer.json()["put"], answer.json()["deleted"]) == (["p"], [])
    assert "not in the catalog" in answer.json()["warnings"][0]
    assert (await admin.get("/api/v1/guard/policies")).json() == FILE
    (stored,) = (await admin.get("/api/v1/guard/policies/stored")).json()["policies"]
    assert stored["revision"] == 1


@pytest.mark.parametrize(("role", "compares"), [(AdminRole.VIEWER, False), (AdminRole.OPERATOR, True)])
async def test_only_an_admin_changes_policies_and_an_operator_may_compare(as_role, role, compares, room):
    client = await as_role(role)
    assert (await client.put("/api/v1/guard/policies", json=FILE)).status_code == 403
    assert room.fleet.policies == ()
    assert (await client.post("/api/v1/guard/policies/diff", json=FILE)).status_code == (200 if compares else 403)


async def test_a_wrong_field_is_named_and_nothing_changes(admin, room):
    wrong = {"policies": [FILE["policies"][0] | {"rules": [{"name": "r", "judge": "g", "action": "stop"}]}]}
    answer = await admin.put("/api/v1/guard/policies", json=wrong)
    error = answer.json()["error"]
    assert answer.status_code == 400
    assert "rules[0].action" in error["field"]
    assert "block" in error["allowed"]
    assert room.fleet.policies == ()


async def test_a_missing_judge_stands_in_list_and_summary_with_what_helps(admin, room):
    await room.fleet.write([PutPolicy(policy=policy("p", rule(judge="guard")))])
    (judge,) = (await admin.get("/api/v1/guard/judges")).json()["judges"]
    assert (judge["state"], judge["in_catalog"]) == ("absent", False)
    assert judge["remedy"] == "llmgw ctl guard judge enable guard"
    assert (await admin.get("/api/v1/summary")).json()["judges"] == [judge]


async def test_what_no_judge_can_be_enabled_from_is_refused_in_words(admin, as_role):
    answer = await admin.post("/api/v1/guard/judges/guard/enable", json={})
    assert answer.status_code == 400
    assert "looked for Llama Guard 3 1B" in answer.json()["error"]["message"]
    viewer = await as_role(AdminRole.VIEWER)
    assert (await viewer.post("/api/v1/guard/judges/guard/enable", json={})).status_code == 403


async def test_the_audit_is_given_newest_first_and_by_outcome(admin, room):
    for number, outcome in enumerate((Outcome.BLOCKED, Outcome.FLAGGED, Outcome.BLOCKED)):
        room.clock.advance(1.0)
        entry = AuditEntry(
            at=room.clock.now(),
            request_id=f"r{number}",
            key="lk_1",
            project="p",
            model="m",
            surface="chat",
            coverage=Coverage(outcome=outcome),
        )
        room.board.report(DemandReport(gateway="g", seq=number, audit=(entry,)))
    answer = (await admin.get("/api/v1/guard/audit?outcome=blocked")).json()
    assert [entry["request_id"] for entry in answer["entries"]] == ["r2", "r0"]
    assert answer["kept"] == 3
    assert len((await admin.get("/api/v1/guard/audit?limit=1")).json()["entries"]) == 1
    assert (await admin.get("/api/v1/guard/audit?limit=0")).status_code == 400
