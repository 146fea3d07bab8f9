from llmgw.schema.key import AdminRole


async def test_the_plan_is_read_by_viewers(room, as_role):
    viewer = await as_role(AdminRole.VIEWER)
    answer = await viewer.get("/api/v1/plan")
    assert (answer.status_code, answer.json()["changes"], answer.json()["text"]) == (200, 0, "nothing to do")


async def test_a_model_is_explained_also_when_its_name_holds_slashes(room, admin):
    await admin.post("/api/v1/models", json={"name": "team/chat", "source": "/models/none.gguf"})
    for path in ("team/chat", "team%2Fchat"):
        answer = await admin.get(f"/api/v1/models/{path}/explain")
        assert (answer.status_code, answer.json()["model"]) == (200, "team/chat")
    assert (await admin.get("/api/v1/models/other/explain")).status_code == 404


async def test_one_that_does_not_lead_says_who_does(room, admin):
    room.lease.lose("other")
    answer = await admin.get("/api/v1/plan")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_leader")
