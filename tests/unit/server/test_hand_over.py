"""A leader that hears no agents any more, and standbys that say over real HTTP who asks them."""

import asyncio
import contextlib
import socket

import httpx2
import pytest
import uvicorn
from msgspec.structs import replace
from structlog.testing import capture_logs

from llmgw.config.server import ServerConfig
from llmgw.core.hand_over import BARRED_S, BLIND_S, SETTLE_S
from llmgw.schema.hand_over import StandbyWord
from llmgw.schema.member import Member
from llmgw.server.asked import Asked
from llmgw.server.hand_over import LEAVE_S, HandingOver
from llmgw.server.http.app import build_app
from llmgw.server.peers import STANDBY_PATH, Peers
from llmgw.server.standby import peer_secret
from llmgw.testing.control_room import HASH_KEY, ControlRoom

SECRET = peer_secret(HASH_KEY)
NODES = [f"n{number}" for number in range(4)]


class HandedLease:
    """A room's lease that remembers for how long it was let go."""

    def __init__(self, room):
        self.room = room
        self.let_go = []
        self.abstains = False

    def status(self):
        return replace(self.room.lease.status(), abstains=self.abstains)

    def step_down(self, for_s):
        self.let_go.append(for_s)
        self.room.lease.step_down(for_s)


class Plane:
    """One control plane that may hand over, with its API on a port of loopback."""

    def __init__(self, name):
        self.name = name
        self.room = ControlRoom()
        self.lease = HandedLease(self.room)
        self.asked = Asked(self.room.clock)
        self.peers = Peers(name=name)
        self.others = []
        self.handed = 0
        self.handing_over = HandingOver(
            name=name,
            fleet=self.room.fleet,
            lease=self.lease,
            live=self.room.live,
            asked=self.asked,
            others=lambda: self.others,
            peers=self.peers,
            clock=self.room.clock,
            hearing=self.room.clock,
            count=self._count,
        )
        self.root = ""

    async def start(self):
        await self.room.open()
        config = ServerConfig(data_dir="/nowhere", name=self.name)
        room = self.room
        app = build_app(room.fleet, room.clock, room.store, config=config, version="1", handing_over=self.handing_over)
        sock = socket.create_server(("127.0.0.1", 0))
        self.root = f"http://127.0.0.1:{sock.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", ws="none"))
        self._server.capture_signals = contextlib.nullcontext
        self._task = asyncio.ensure_future(self._server.serve(sockets=[sock]))

    async def stop(self):
        await self.peers.close()
        self._server.should_exit = True
        self._server.force_exit = True
        await self._task

    def member(self):
        return Member(
            name=self.name, holder=self.name, api=self.root, agents="", version="1", started_at=self.room.clock.now()
        )

    def _count(self):
        self.handed += 1

    async def looks_for(self, seconds):
        """Look each second, as long as this one leads."""
        for _ in range(int(seconds)):
            self.room.clock.advance(1.0)
            await self.handing_over.look()

    async def events(self):
        return [event.kind for event in await self.room.store.load_events(limit=50)]


@pytest.fixture
async def planes():
    """`one` leads with four nodes it does not hear; `two` and `three` stand by."""
    planes = [Plane(name) for name in ("one", "two", "three")]
    for plane in planes:
        await plane.start()
    one, *others = planes
    one.others = [plane.member() for plane in planes]
    for other in others:
        other.room.lease.lose("one")
    for node in NODES:
        await one.room.put_node(node)
    yield planes
    for plane in planes:
        await plane.stop()


async def blind_for_long(one):
    await one.looks_for(SETTLE_S + BLIND_S)


async def test_a_leader_without_agents_hands_over_to_the_standby_they_ask_and_has_the_others_wait(planes):
    one, two, three = planes
    for node in NODES:
        two.asked.note(node)
    with capture_logs() as logs:
        await blind_for_long(one)
    assert one.lease.let_go == [LEAVE_S]
    assert (two.lease.let_go, three.lease.let_go) == ([], [LEAVE_S])
    assert one.handed == 1
    assert await one.events() == ["leader.hands_over"]
    told = [entry for entry in logs if entry["event"] == "leader.hands_over"]
    assert [(entry["to"], entry["nodes"], entry["wait"]) for entry in told] == [("two", 4, ("three",))]


async def test_one_that_hears_its_agents_asks_nobody_and_keeps_the_lead(planes):
    one, two, _ = planes
    for node in NODES:
        two.asked.note(node)
        one.room.hear(next(known for known in one.room.fleet.rows.nodes if known.id == node))
    await blind_for_long(one)
    assert one.lease.let_go == []


async def test_where_agents_ask_nobody_the_lead_stays_and_the_reason_is_told_once(planes):
    one, _, _ = planes
    with capture_logs() as logs:
        await one.looks_for(SETTLE_S + 3 * BLIND_S)
    assert one.lease.let_go == []
    reasons = [entry["keeps_the_lead"].name for entry in logs if entry["event"] == "leader.few_agents"]
    assert reasons == ["NOBODY_BETTER"]


async def test_agents_that_come_back_while_the_others_are_asked_keep_it(planes):
    one, two, _ = planes
    for node in NODES:
        two.asked.note(node)
    asks = one.peers.standby_word

    async def meanwhile(api, *, secret):
        for node in one.room.fleet.rows.nodes:
            one.room.hear(node)
        return await asks(api, secret=secret)

    one.peers.standby_word = meanwhile
    await blind_for_long(one)
    assert one.lease.let_go == []


async def test_without_the_store_nothing_is_handed_over(planes):
    one, two, _ = planes
    for node in NODES:
        two.asked.note(node)
    one.room.lease.fence = lambda: None
    one.room.lease.is_leader = lambda: True
    await blind_for_long(one)
    assert one.lease.let_go == []


async def test_who_gave_the_lead_away_is_not_offered_it_for_a_minute_and_then_two(planes):
    one, two, _ = planes
    for seconds in (BARRED_S, 2 * BARRED_S):
        one.room.lease.take()
        one.handing_over._term = None  # the lease by hand counts no terms
        for _ in range(int(SETTLE_S + 3 * BLIND_S)):
            for node in NODES:
                two.asked.note(node)
            await one.looks_for(1)
            if not one.room.lease.is_leader():
                break
        assert not one.room.lease.is_leader()
        one.room.clock.advance(seconds - 1)
        assert not one.handing_over.word().may_lead
        one.room.clock.advance(2)
        assert one.handing_over.word().may_lead


async def test_a_standby_tells_who_asked_and_whether_it_would_lead(planes):
    one, two, _ = planes
    two.asked.note("n1")
    assert await one.peers.standby_word(two.root, secret=SECRET) == StandbyWord(
        name="two", nodes=frozenset({"n1"}), may_lead=True
    )
    two.lease.abstains = True
    assert not (await one.peers.standby_word(two.root, secret=SECRET)).may_lead
    assert not one.handing_over.word().may_lead, "it leads"


async def test_who_cannot_read_the_store_is_told_nothing_and_makes_nobody_wait(planes):
    one, two, _ = planes
    assert await one.peers.standby_word(two.root, secret="wrong") is None
    assert not await one.peers.ask_to_wait(two.root, 5.0, secret="wrong")
    assert two.lease.let_go == []


async def test_a_leader_never_waits_for_itself_and_nobody_for_long(planes):
    one, two, _ = planes
    assert not await one.peers.ask_to_wait(one.root, 5.0, secret=SECRET)
    assert one.lease.let_go == []
    assert await one.peers.ask_to_wait(two.root, 1e9, secret=SECRET)
    assert two.lease.let_go == [LEAVE_S]


async def test_a_wish_that_is_none_is_refused(planes):
    _, two, _ = planes
    async with httpx2.AsyncClient(base_url=two.root, headers={"authorization": f"Bearer {SECRET}"}) as client:
        answer = await client.post(STANDBY_PATH, content=b"{}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")
