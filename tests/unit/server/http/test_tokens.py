from llmgw.schema.key import AdminRole

TOKENS = "/api/v1/tokens"


async def test_an_admin_makes_lists_and_revokes_tokens(admin, app):
    made = await admin.post(TOKENS, json={"name": "prometheus", "role": "viewer"})
    assert (made.status_code, made.json()["token"]["role"]) == (201, "viewer")
    scrape = {"authorization": f"Bearer {made.json()['secret']}"}
    assert (await admin.get("/metrics", headers=scrape)).status_code == 200
    assert "prometheus" in [row["name"] for row in (await admin.get(TOKENS)).json()["tokens"]]
    assert (await admin.delete(f"{TOKENS}/{made.json()['token']['id']}")).status_code == 200
    assert (await admin.get("/metrics", headers=scrape)).status_code == 401


async def test_a_role_must_be_said_and_known(admin):
    for body in ({"name": "a"}, {"name": "a", "role": "root"}):
        refused = await admin.post(TOKENS, json=body)
        assert (refused.status_code, refused.json()["error"]["field"]) == (400, "role")


async def test_nobody_but_an_admin_sees_or_makes_tokens(as_role):
    for role in (AdminRole.VIEWER, AdminRole.OPERATOR):
        client = await as_role(role)
        assert (await client.get(TOKENS)).status_code == 403
        assert (await client.post(TOKENS, json={"name": "a", "role": "admin"})).status_code == 403
