import httpx2
import pytest

from llmgw.config.server import ServerConfig
from llmgw.schema.key import AdminRole
from llmgw.server.http.app import build_app

CHAT = {"name": "org/chat", "source": "/models/chat.gguf", "profile": {"context": 512}}


async def test_a_model_lives_through_the_api(admin):
    made = await admin.post("/api/v1/models", json=CHAT)
    assert made.status_code == 201
    assert made.json()["state"] == "short"
    assert (await admin.get("/api/v1/models/org%2Fchat")).json() == made.json()
    assert (await admin.get("/api/v1/models/org/chat")).json() == made.json()
    assert [row["name"] for row in (await admin.get("/api/v1/models")).json()["models"]] == ["org/chat"]
    scaled = await admin.post("/api/v1/models/org/chat/scale", json={"replicas": 2})
    assert (scaled.json()["min"], scaled.json()["max"], scaled.json()["revision"]) == (2, 2, 1)
    changed = await admin.patch("/api/v1/models/org%2Fchat", json={"profile": {"slots": 3}})
    assert changed.json()["profile"]["context"] == 512
    assert changed.json()["revision"] == 2
    assert (await admin.post("/api/v1/models/org/chat/unpark")).status_code == 200
    assert (await admin.delete("/api/v1/models/org/chat")).json() == {"removed": "org/chat"}
    assert (await admin.get("/api/v1/models")).json() == {"models": []}
    kinds = [event["kind"] for event in (await admin.get("/api/v1/events")).json()["events"]]
    assert kinds == ["model.removed", "model.changed", "model.scaled", "model.created"]


async def test_a_model_may_be_named_like_an_action(admin):
    assert (await admin.post("/api/v1/models", json={**CHAT, "name": "m/scale"})).status_code == 201
    assert (await admin.get("/api/v1/models/m/scale")).json()["name"] == "m/scale"
    answer = await admin.post("/api/v1/models/m/scale/scale", json={"replicas": 0})
    assert answer.json()["min"] == 0


async def test_a_taken_name_is_a_conflict_with_a_hint(admin):
    await admin.post("/api/v1/models", json=CHAT)
    answer = await admin.post("/api/v1/models", json=CHAT)
    assert answer.status_code == 409
    assert answer.json()["error"]["hint"]


async def test_an_operator_acts_under_their_tokens_id(room, as_role):
    client = await as_role(AdminRole.OPERATOR)
    await client.post("/api/v1/models", json=CHAT)
    (event,) = await room.store.load_events(limit=1)
    assert event.actor == client.headers["authorization"].removeprefix("Bearer ")[:11]


async def test_a_keys_secret_is_shown_once(admin):
    made = await admin.post("/api/v1/keys", json={"name": "team"})
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    secret, key_id = made.json()["secret"], made.json()["key"]["id"]
    listed = await admin.get("/api/v1/keys")
    assert [key["id"] for key in listed.json()["keys"]] == [key_id]
    assert secret not in listed.text
    revoked = await admin.delete(f"/api/v1/keys/{key_id}")
    assert revoked.json()["revoked_at"]


async def test_nodes_and_replicas_are_listed_without_engine_keys(room, admin):
    await room.put_node()
    await room.put_replica("r1", "m")
    listed = await admin.get("/api/v1/replicas")
    assert listed.json()["replicas"][0]["shards"][0]["pid"] == 4242
    assert "le_" not in listed.text
    assert (await admin.get("/api/v1/replicas/r1")).json() == listed.json()["replicas"][0]
    assert (await admin.get("/api/v1/nodes")).json()["nodes"] == [(await admin.get("/api/v1/nodes/n1")).json()]


async def test_a_log_is_read_over_the_api(room, admin):
    await room.put_replica("r1", "m")
    room.logs.texts["r1.0"] = "loading\nready"
    answer = await admin.get("/api/v1/replicas/r1/logs?tail_bytes=5&shard=0")
    assert answer.json() == {"logs": [{"shard": "r1.0", "node": "n1", "attempt": 1, "text": "ready", "error": None}]}


async def test_the_summary_names_version_leader_and_epoch(room, admin):
    await room.put_node()
    summary = (await admin.get("/api/v1/summary")).json()
    assert (summary["version"], summary["leader"], summary["epoch"]) == ("1.2.3", "control-1", 1)
    assert summary["nodes"]["total"] == 1


async def test_healthz_is_fine_whoever_leads_and_whatever_the_store_does(room, as_role):
    client = await as_role(None)
    room.lease.lose()
    room.store.away = True
    answer = await client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_leader_is_200_on_the_leader_only(room, as_role):
    client = await as_role(None)
    answer = await client.get("/leader")
    assert (answer.status_code, answer.json()) == (200, {"leader": "control-1", "epoch": 1})
    room.lease.lose("control-2")
    answer = await client.get("/leader")
    assert answer.status_code == 503
    assert "control-2" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/", "/anything", "/static/console.css"])
async def test_every_other_path_is_the_consoles(room, path):
    asked = []

    async def console(scope, receive, send):
        asked.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    config = ServerConfig(data_dir="/nowhere")
    app = build_app(room.fleet, room.clock, room.store, config=config, version="1", console=console)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://control") as client:
        await client.get(path)
        await client.get("/api/v1/nothing")
        await client.get("/healthz")
    assert asked == [path]
