import pytest

from llmgw.schema.key import AdminRole
from llmgw.schema.node import Intent

NODE = "/api/v1/nodes/n1"


@pytest.mark.parametrize("body", [b"", b"{}"], ids=["no body", "empty object"])
async def test_a_node_is_cordoned_drained_and_uncordoned(room, admin, body):
    await room.put_node()
    cordoned = await admin.post(f"{NODE}/cordon?reason=bad%20fan", content=body)
    assert (cordoned.status_code, cordoned.json()["state"], cordoned.json()["intent_reason"]) == (
        200,
        "cordoned",
        "bad fan",
    )
    draining = await admin.post(f"{NODE}/drain", content=body)
    assert draining.json()["node"]["state"] == "draining"
    assert draining.json()["dry_run"] is False
    ready = await admin.post(f"{NODE}/uncordon", content=body)
    assert (ready.json()["state"], ready.json()["intent_reason"]) == ("ready", None)


async def test_a_dry_run_changes_nothing(room, admin):
    await room.put_node()
    told = await admin.post(f"{NODE}/drain?dry_run=true")
    assert told.json()["preview"] == {"moves": [], "waits": [], "breaks": []}
    assert room.fleet.rows.nodes[0].intent is Intent.NONE


async def test_a_misspelt_dry_run_is_refused_and_drains_nothing(room, admin):
    await room.put_node()
    for wrong in ("dry-run=true", "dry_run=maybe"):
        refused = await admin.post(f"{NODE}/drain?{wrong}")
        assert refused.status_code == 400
    refused = await admin.post(f"{NODE}/drain", json={"dry_run": True})
    assert refused.status_code == 400
    assert room.fleet.rows.nodes[0].intent is Intent.NONE


async def test_a_node_is_removed_once(room, admin):
    await room.put_node()
    assert (await admin.delete(NODE)).json() == {"removed": "n1"}
    assert (await admin.delete(NODE)).status_code == 404


async def test_a_viewer_may_look_and_not_touch(room, as_role):
    await room.put_node()
    viewer = await as_role(AdminRole.VIEWER)
    assert (await viewer.get(NODE)).status_code == 200
    for path in ("n1/cordon", "n1/uncordon", "n1/drain", "replace-silent"):
        assert (await viewer.post(f"/api/v1/nodes/{path}")).status_code == 403
    assert (await viewer.delete(NODE)).status_code == 403


async def test_the_word_that_silent_nodes_may_be_replaced_answers_with_their_names(room, admin):
    await room.put_node()
    answer = await admin.post("/api/v1/nodes/replace-silent")
    assert (answer.status_code, answer.json()) == (200, {"nodes": []})


async def test_a_nodes_hour_is_for_viewers_and_of_nodes_that_are_there(room, as_role):
    await room.put_node()
    viewer = await as_role(AdminRole.VIEWER)
    answer = await viewer.get(f"{NODE}/history")
    assert (answer.status_code, answer.json()["source"], answer.json()["series"]) == (200, "memory", [])
    assert (await viewer.get("/api/v1/nodes/n9/history")).status_code == 404
    assert (await (await as_role(None)).get(f"{NODE}/history")).status_code == 401
