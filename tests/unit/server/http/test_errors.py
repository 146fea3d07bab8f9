import httpx2
import pytest

SHAPE = {"code", "message", "hint", "field", "allowed"}


def _error(answer: httpx2.Response, status: int) -> dict:
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == SHAPE
    return body["error"]


@pytest.mark.parametrize(
    "path", ["/api/v1/nothing", "/api/v2/models", "/api/", "/nothing", "/api/v1/nodes/", "/api/v1"]
)
async def test_an_unknown_path_has_the_one_shape(admin, path):
    assert _error(await admin.get(path), 404)["code"] == "not_found"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/api/v1/summary", "GET"),
        ("POST", "/healthz", "GET"),
        ("PUT", "/api/v1/models/m/scale", "POST"),
        ("PATCH", "/metrics", "GET"),
    ],
)
async def test_a_wrong_method_names_the_right_ones(admin, method, path, allowed):
    answer = await admin.request(method, path)
    error = _error(answer, 405)
    assert error["code"] == "method_not_allowed"
    assert allowed in error["allowed"]
    assert allowed in answer.headers["allow"]


async def test_a_fault_of_ours_has_the_one_shape_and_tells_nothing_inner(room, admin, monkeypatch):
    def broken():
        raise ZeroDivisionError("inner text")

    monkeypatch.setattr(room.fleet, "snapshot", broken)
    answer = await admin.get("/api/v1/summary")
    error = _error(answer, 500)
    assert error["code"] == "internal"
    assert "inner text" not in answer.text


async def test_a_missing_thing_has_the_one_shape(admin):
    assert _error(await admin.get("/api/v1/models/org/none"), 404)["message"] == "there is no model 'org/none'"


async def test_bad_input_names_field_and_allowed_values(admin):
    answer = await admin.post("/api/v1/models", json={"name": "m", "source": "/m", "role": "chta"})
    error = _error(answer, 400)
    assert (error["field"], error["allowed"]) == ("role", ["chat", "embed", "rerank", "guard"])


async def test_a_query_with_an_unknown_name_is_refused_with_the_nearest(admin):
    error = _error(await admin.get("/api/v1/events?limitt=3"), 400)
    assert (error["field"], error["hint"]) == ("limitt", "did you mean 'limit'?")


async def test_a_query_value_that_is_no_number_is_refused(admin):
    assert _error(await admin.get("/api/v1/events?limit=many"), 400)["field"] == "limit"


async def test_a_body_where_none_belongs_is_refused(admin):
    assert _error(await admin.request("DELETE", "/api/v1/models/m", json={"force": True}), 400)["field"] == "force"


async def test_a_body_that_is_too_large_is_cut_off(admin):
    error = _error(await admin.post("/api/v1/models", content=b" " * (1024 * 1024 + 1)), 413)
    assert error["code"] == "too_large"


async def test_a_store_that_is_away_is_an_error_with_that_code(room, admin):
    room.store.away = True
    assert _error(await admin.get("/api/v1/events"), 503)["code"] == "store_unavailable"
    assert _error(await admin.post("/api/v1/keys", json={"name": "x"}), 503)["code"] == "store_unavailable"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/v1/models", {"name": "m", "source": "/m.gguf"}),
        ("DELETE", "/api/v1/models/m", None),
        ("POST", "/api/v1/models/m/unpark", None),
        ("POST", "/api/v1/keys", {"name": "x"}),
        ("DELETE", "/api/v1/keys/lk_AAAAAAAA", None),
    ],
)
async def test_a_write_where_nobody_leads_says_so(room, admin, method, path, body):
    room.lease.lose()
    assert _error(await admin.request(method, path, json=body), 503)["code"] == "no_leader"
