import pytest

from llmgw.schema.key import AdminRole
from llmgw.server.http.app import ROUTES

PATHS = [
    (route.method, "/api/v1" + route.path.replace("{name:path}", "m").replace("{id}", "x"), route.role)
    for route in ROUTES
]
PATHS.append(("GET", "/api/v1/openapi.json", AdminRole.VIEWER))
PATHS.append(("GET", "/metrics", AdminRole.VIEWER))


@pytest.mark.parametrize(("method", "path", "role"), PATHS)
async def test_no_path_answers_without_a_token(as_role, method, path, role):
    answer = await (await as_role(None)).request(method, path)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthorized"
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("method", "path", "role"), PATHS)
async def test_a_role_below_the_needed_one_is_refused_before_anything_else(as_role, method, path, role):
    for have in AdminRole:
        answer = await (await as_role(have)).request(method, path)
        enough = list(AdminRole).index(have) >= list(AdminRole).index(role)
        assert (answer.status_code == 403) is not enough, (have, answer.text)


def test_what_changes_something_is_not_for_viewers():
    assert [route.path for route in ROUTES if route.method != "GET" and route.role is AdminRole.VIEWER] == []


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic bHRfQQ==", "lt_AAAAAAAA", "Bearer lt_AAAAAAAAwrong", "Bearer ä"]
)
async def test_any_other_authorization_is_refused(as_role, header):
    client = await as_role(None)
    answer = await client.get("/api/v1/summary", headers={"authorization": header.encode()})
    assert answer.status_code == 401
    assert "wrong" not in answer.text


async def test_a_token_in_the_url_is_no_token(room, as_role):
    secret = await room.token(AdminRole.ADMIN)
    answer = await (await as_role(None)).get("/api/v1/nodes", params={"token": secret})
    assert answer.status_code == 401


async def test_a_revoked_token_is_refused_at_once(room, as_role):
    client = await as_role(AdminRole.VIEWER)
    assert (await client.get("/api/v1/nodes")).status_code == 200
    await room.revoke(client.headers["authorization"].removeprefix("Bearer "))
    assert (await client.get("/api/v1/nodes")).status_code == 401
