from datetime import timedelta

import httpx2
import msgspec
import pytest

from llmgw.config.server import ServerConfig
from llmgw.core import backup
from llmgw.ports import PutAdminToken, PutJoinToken
from llmgw.schema.errors import InvalidInput
from llmgw.schema.identity import JoinToken, Part
from llmgw.schema.key import AdminRole, AdminToken
from llmgw.schema.replica import ReplicaState
from llmgw.server.http.app import build_app
from llmgw.server.identity import hash_secret
from llmgw.server.restore import Restore
from llmgw.store.backup import brought_forward
from llmgw.testing.control_room import HASH_KEY, ControlRoom

BACKUP = "/api/v1/backup"
RESTORE = "/api/v1/restore"
RESUME = "/api/v1/control-planes/resume"
FIRST = "lt_FIRSTTOKENofcredentials"


class Plane:
    """A control plane that can restore. `first_secrets` puts in the token of its credentials file, as bootstrap."""

    def __init__(self):
        self.room = ControlRoom()

    async def open(self):
        await self.room.open()
        room = self.room
        restore = Restore(
            room.fleet,
            room.clock,
            forward=brought_forward,
            keep=lambda ours, theirs: {},
            first_secrets=self.first_secrets,
        )
        config = ServerConfig(data_dir="/nowhere", name="control-9")
        self.app = build_app(room.fleet, room.clock, room.store, config=config, version="1.2.3", restore=restore)
        await self.first_secrets()

    async def first_secrets(self):
        token = AdminToken(
            id=FIRST[:11],
            hash=hash_secret(self.room.fleet.hash_key, FIRST),
            name="first",
            role=AdminRole.ADMIN,
            created_at=self.room.clock.now(),
        )
        if token.id not in {one.id for one in self.room.fleet.admin_tokens}:
            await self.room.fleet.write([PutAdminToken(token=token)])

    def client(self, secret=FIRST):
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        transport = httpx2.ASGITransport(app=self.app, raise_app_exceptions=False)
        return httpx2.AsyncClient(transport=transport, base_url="http://control", headers=headers)


@pytest.fixture
async def plane():
    plane = Plane()
    await plane.open()
    return plane


@pytest.fixture
async def file():
    """A backup of another cluster, with an operator's token of its own."""
    room = ControlRoom()
    await room.open()
    await room.put_node("n1")
    await room.put_replica("r1", "chat", state=ReplicaState.READY)
    secret = await room.token(AdminRole.ADMIN)
    for _ in range(6):
        room.lease.take()
    sealed = backup.seal(await room.store.dump(), llmgw="1.0.0", taken_at=room.clock.now(), taken_by="control-1")
    return msgspec.json.encode(sealed), secret


async def post(client, data):
    return await client.post(RESTORE, content=data, headers={"content-type": "application/json"})


async def test_a_backup_reads_back_and_says_where_it_is_from(plane):
    answer = await plane.client().get(BACKUP)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    found = backup.read(answer.content)
    assert (found.llmgw, found.taken_by, found.content.epoch) == ("1.2.3", "control-9", 1)
    assert {row["id"] for row in found.content.tables["admin_tokens"]} == {FIRST[:11]}


async def test_a_standby_gives_a_backup_too(plane):
    plane.room.lease.lose("control-2")
    assert (await plane.client().get(BACKUP)).status_code == 200


async def test_nobody_but_an_admin_takes_restores_or_resumes(plane, file):
    for role in (None, AdminRole.VIEWER, AdminRole.OPERATOR):
        client = plane.client(await plane.room.token(role) if role else None)
        for answer in (await client.get(BACKUP), await post(client, file[0]), await client.post(RESUME)):
            assert answer.status_code == (403 if role else 401)
    assert plane.room.fleet.observing is None


async def test_a_restore_replaces_everything_and_says_who_can_log_in(plane, file):
    data, secret = file
    done = await post(plane.client(), data)
    assert done.status_code == 200, done.text
    answer = done.json()
    assert answer["epoch"] > 7
    assert plane.room.fleet.leader_status().epoch == answer["epoch"]
    assert {login["name"] for login in answer["logins"]} == {"first", "the admin"}
    assert answer["your_token_works"] is True
    assert (answer["rows"]["nodes"], answer["restarts"]) == (1, False)
    for good in (secret, FIRST):
        assert (await plane.client(good).get("/api/v1/tokens")).status_code == 200
    (replica,) = plane.room.fleet.rows.replicas
    assert (replica.state, replica.shards[0].endpoint) == (ReplicaState.STARTING, None)
    (restored,) = await plane.room.store.load_events(limit=1)
    assert restored.kind == "store.restored"


async def test_a_token_made_in_the_new_cluster_is_gone_and_the_answer_says_so(plane, file):
    mine = await plane.room.token(AdminRole.ADMIN)
    done = await post(plane.client(mine), file[0])
    assert done.json()["your_token_works"] is False
    assert (await plane.client(mine).get("/api/v1/summary")).status_code == 401


async def test_while_it_observes_summary_and_metrics_say_so_until_a_resume(plane, file):
    await post(plane.client(), file[0])
    summary = (await plane.client().get("/api/v1/summary")).json()
    assert [alarm["kind"] for alarm in summary["alarms"]] == ["observing"]
    assert "\nllmgw_observing 1.0" in (await plane.client().get("/metrics")).text
    resumed = await plane.client().post(RESUME)
    assert resumed.json() == {"was_observing": True}
    assert "\nllmgw_observing 0.0" in (await plane.client().get("/metrics")).text
    assert (await plane.client().post(RESUME)).json() == {"was_observing": False}


async def test_a_cluster_in_use_refuses_and_is_as_it_was(plane, file):
    await plane.room.put_node("mine")
    before = await plane.room.store.dump()
    refused = await post(plane.client(), file[0])
    assert refused.status_code == 409
    assert "1 node (mine)" in refused.json()["error"]["message"]
    assert await plane.room.store.dump() == before


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda data: data[:-9], "backup_unreadable"),
        (lambda data: data.replace(b'"epoch":7', b'"epoch":6'), "backup_unreadable"),
        (lambda data: b"{}", "backup_unreadable"),
        (lambda data: data.replace(b'"format_version":1', b'"format_version":2'), "backup_too_new"),
    ],
)
async def test_a_file_that_is_not_a_whole_backup_changes_nothing(plane, file, damage, code):
    before = await plane.room.store.dump()
    assert damage(file[0]) != file[0]
    refused = await post(plane.client(), damage(file[0]))
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, code)
    assert refused.json()["error"]["hint"]
    assert await plane.room.store.dump() == before


async def test_a_backup_of_a_newer_schema_changes_nothing(plane):
    content = msgspec.structs.replace(await plane.room.store.dump(), schema="9999")
    data = msgspec.json.encode(backup.seal(content, llmgw="9", taken_at=plane.room.clock.now(), taken_by="c"))
    refused = await post(plane.client(), data)
    assert refused.json()["error"]["code"] == "backup_too_new"
    assert plane.room.fleet.hash_key == HASH_KEY


async def test_what_refuses_the_backups_authority_stops_the_restore_before_anything(plane, file):
    def refuse(ours, theirs):
        raise InvalidInput("not that authority", field="backup")

    restore = Restore(
        plane.room.fleet, plane.room.clock, forward=brought_forward, keep=refuse, first_secrets=plane.first_secrets
    )
    before = await plane.room.store.dump()
    with pytest.raises(InvalidInput):
        await restore(backup.read(file[0]), actor="lt_x")
    assert await plane.room.store.dump() == before


async def test_join_tokens_of_the_backup_let_nobody_in_once_more(plane):
    room = ControlRoom()
    await room.open()
    now = room.clock.now()
    token = JoinToken(
        id="lj_12345678",
        hash="h",
        part=Part.NODE,
        name="n1",
        created_at=now,
        created_by="lt_x",
        expires_at=now + timedelta(minutes=15),
    )
    await room.fleet.write([PutJoinToken(token=token)])
    sealed = backup.seal(await room.store.dump(), llmgw="1.0.0", taken_at=now, taken_by="control-1")
    assert sealed.content.tables["join_tokens"]
    assert (await post(plane.client(), msgspec.json.encode(sealed))).status_code == 200
    assert plane.room.fleet.join_tokens == ()
