"""A standby and a leader, each with the API as it is served, over real HTTP."""

import asyncio
import socket
from datetime import UTC, datetime

import httpx2
import pytest
import uvicorn
from msgspec.structs import replace

from llmgw.config.server import ServerConfig
from llmgw.schema.demand import AuditEntry, DemandReport, JudgeReport, MetricSample, ModelDemand
from llmgw.schema.guard.coverage import Coverage, Outcome
from llmgw.schema.key import AdminRole
from llmgw.server.demand import GatewayLive
from llmgw.server.http.app import build_app
from llmgw.server.peers import FORWARDED_BY, Peers
from llmgw.server.standby import Standby, peer_secret
from llmgw.testing.control_room import HASH_KEY, ControlRoom

RECORD = AuditEntry(
    at=datetime(2026, 1, 1, tzinfo=UTC),
    request_id="r",
    key="lk_1",
    project="p",
    model="m",
    surface="chat",
    coverage=Coverage(outcome=Outcome.BLOCKED),
)


class Plane:
    """One control plane's API on a port of loopback. `leader` is the one that leads, if it is another."""

    def __init__(self, name):
        self.room = ControlRoom()
        self.name = name
        self.root = ""
        self.peers = Peers(name=name)
        self.standby = None
        self._server = None

    async def start(self):
        await self.room.open()
        self.standby = Standby(
            fleet=self.room.fleet, board=self.room.board, peers=self.peers, name=self.name, holder=f"h-{self.name}"
        )
        config = ServerConfig(data_dir="/nowhere", name=self.name)
        app = build_app(
            self.room.fleet, self.room.clock, self.room.store, config=config, version="1", standby=self.standby
        )
        sock = socket.create_server(("127.0.0.1", 0))
        self.root = f"http://127.0.0.1:{sock.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", ws="none"))
        self._server.capture_signals = _leave_signals
        self._task = asyncio.ensure_future(self._server.serve(sockets=[sock]))

    def follow(self, leader):
        self.room.lease.lose(leader.name)
        status = self.room.lease.status
        self.room.lease.status = lambda: replace(status(), leader_address=leader.root)

    async def stop(self):
        await self.peers.close()
        self._server.should_exit = True
        self._server.force_exit = True
        await self._task


class _leave_signals:  # noqa: N801 - stands for a method
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@pytest.fixture
async def leader():
    plane = Plane("control-1")
    await plane.start()
    yield plane
    await plane.stop()


@pytest.fixture
async def standby(leader):
    plane = Plane("control-2")
    await plane.start()
    plane.follow(leader)
    yield plane
    await plane.stop()


@pytest.fixture
async def client(standby, leader):
    token = await leader.room.token(AdminRole.ADMIN)
    async with httpx2.AsyncClient(base_url=standby.root, headers={"authorization": f"Bearer {token}"}) as client:
        yield client


async def test_a_write_goes_to_the_leader_with_the_callers_token_and_its_answer_comes_back(client, leader, standby):
    answer = await client.post("/api/v1/models", json={"name": "org/chat", "source": "/m.gguf"})
    assert answer.status_code == 201, answer.text
    assert [model.name for model in leader.room.fleet.rows.models] == ["org/chat"]
    assert standby.room.fleet.rows.models == ()
    scaled = await client.post("/api/v1/models/org%2Fchat/scale", json={"replicas": 2})
    assert scaled.json()["min"] == 2


async def test_the_leader_decides_who_may_and_its_refusals_come_back_as_they_are(client, leader):
    answer = await client.post("/api/v1/models", json={}, headers={"authorization": "Bearer lt_wrong"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
    assert answer.headers["www-authenticate"]
    answer = await client.post("/api/v1/models", json={"name": "x"})
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "source")


async def test_a_write_is_forwarded_once(client, leader, standby):
    leader.follow(standby)
    answer = await client.post("/api/v1/keys", json={"name": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_leader")
    answer = await client.post("/api/v1/keys", json={"name": "a"}, headers={FORWARDED_BY: "control-9"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_leader")


async def test_without_a_leader_a_write_is_refused_and_reads_are_answered(client, standby):
    standby.room.lease.status = lambda: replace(type(standby.room.lease).status(standby.room.lease), leader_name=None)
    token = await standby.room.token(AdminRole.VIEWER) if standby.room.fleet.is_leader() else None
    assert token is None
    answer = await client.post("/api/v1/keys", json={"name": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_leader")


async def test_a_leader_that_cannot_be_reached_is_named(client, standby):
    status = standby.room.lease.status
    standby.room.lease.status = lambda: replace(status(), leader_address="http://127.0.0.1:9")
    answer = await client.post("/api/v1/keys", json={"name": "a"})
    assert answer.status_code == 503
    assert "control-1 leads, and cannot be reached" in answer.json()["error"]["message"]


async def test_what_only_the_leader_knows_is_asked_of_it(client, leader):
    answer = await client.get("/api/v1/plan")
    assert answer.status_code == 200, answer.text


async def test_demand_at_a_standby_is_told_to_the_leader_under_a_name_of_its_own(leader, standby):
    report = DemandReport(
        gateway="gateway-1",
        seq=1,
        models={"m": ModelDemand(held=1, in_flight=2, arrivals=3)},
        metrics=(MetricSample(name="x", labels=(), value=1.0),),
        judges={"guard": JudgeReport(waiting=3)},
        audit=(RECORD,),
    )
    standby.room.board.connect(GatewayLive(name="gateway-1", version="1", pid=1, connected_at=0.0))
    relaying = asyncio.ensure_future(standby.standby.relay())
    standby.room.board.report(report)  # a request begins to wait: told at once
    try:
        async with asyncio.timeout(10):
            while not leader.room.board.by_model():  # noqa: ASYNC110 - another control plane over HTTP
                await asyncio.sleep(0.01)
    finally:
        relaying.cancel()
    ((gateway, demand),) = leader.room.board.by_model()["m"]
    assert (gateway, demand.held) == ("control-2/gateway-1", 1)
    assert leader.room.board.judges()["guard"][0].waiting == 3
    assert leader.room.board.audit.newest() == (RECORD,), "told once"
    assert leader.room.board.samples() == (), "each exports the metrics of its own gateways"
    assert leader.room.board.reports() == (), "what was relayed is not relayed on"


async def test_demand_is_taken_from_control_planes_of_the_cluster_only(leader):
    async with httpx2.AsyncClient(base_url=leader.root) as stranger:
        for headers in ({}, {"authorization": "Bearer x"}, {"authorization": f"Bearer {peer_secret(b'other')}"}):
            answer = await stranger.post("/peer/v1/demand", content=b"[]", headers=headers)
            assert answer.status_code == 401
        secret = {"authorization": f"Bearer {peer_secret(HASH_KEY)}"}
        assert (await stranger.post("/peer/v1/demand", content=b"[]", headers=secret)).status_code == 200
        assert (await stranger.post("/peer/v1/demand", content=b"{", headers=secret)).status_code == 400


async def test_a_sign_of_life_names_the_process(leader):
    peers = Peers(name="x")
    assert await peers.holder_at(leader.root) == "h-control-1"
    assert await peers.holder_at("http://127.0.0.1:9") is None
    await peers.close()
