"""Joining and renewing over real TLS on loopback: who checks whom, and in which order."""

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from structlog.testing import capture_logs
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException
from websockets.frames import CloseCode

from llmgw.link import join as module
from llmgw.link.client import AgentConnection
from llmgw.link.identity import Holder, TlsIdentity, write_identity
from llmgw.link.join import NotJoined, Ticket, join, read_ticket, renew
from llmgw.link.join_server import JoinPath
from llmgw.link.renewal import keep_certificate
from llmgw.link.server import AgentListener
from llmgw.schema.errors import Forbidden, InvalidInput
from llmgw.schema.identity import Identity, Part
from llmgw.schema.join import Declined, Introduction, Joined, Renew
from llmgw.schema.link import Hello, Refused, Welcome
from llmgw.telemetry import ration
from llmgw.telemetry.clock import SystemClock
from llmgw.testing.factories import make_node
from llmgw.testing.identities import Cluster

N1 = Identity(part=Part.NODE, name="n1")


class Side:
    """A control plane that takes everybody who asks; remembers the questions."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.answer = None
        self.asked = []

    def introduction(self):
        return Introduction(authority=self.cluster.authority.certificate)

    async def join(self, request):
        self.asked.append(request)
        who = Identity(part=request.part, name=request.name)
        return self.answer or self._joined(request.request, who)

    async def renew(self, request, holder):
        self.asked.append((request, holder))
        return self.answer or self._joined(request.request, holder.identity)

    def _joined(self, request, who):
        return Joined(certificate=self.cluster.authority.certify(request, who, hosts=(), now=datetime.now(UTC)))


class Handler:
    """Takes every agent."""

    def __init__(self):
        self.streams = []

    async def settle(self, hello):
        """Let nobody wait."""

    def admit(self, hello):
        return Welcome(epoch=1, holder="h1")

    def opened(self, stream, hello):
        self.streams.append(stream)

    def heard(self, stream):
        """Do nothing."""

    def said(self, stream, message):
        """Do nothing."""

    def closed(self, stream):
        self.streams.remove(stream)


class Gate:
    """Lets in by certificate; `refused` names who is not."""

    def __init__(self):
        self.refused = {}
        self.holders = []

    def refuse(self, hello, holder: Holder | None):
        self.holders.append(holder)
        if holder is None:
            return "no certificate"
        return self.refused.get(hello.node)


class Agent:
    """An agent's side that dials one address."""

    def __init__(self, address):
        self.address = address

    def addresses(self):
        return (self.address,)

    def hello(self):
        return Hello(node="n1", token="", facts=make_node().facts, shards=(), epoch=0, holder=None, generation=0)

    def welcomed(self, welcome):
        """Do nothing."""

    def received(self, message):
        """Do nothing."""


@pytest.fixture
def cluster():
    return Cluster()


class Plane:
    """One control plane's listener."""

    def __init__(self, cluster, folder, *, shown=None, part=Part.SERVER):
        self.side = Side(cluster)
        self.handler = Handler()
        self.gate = Gate()
        own = (shown or cluster).join(folder, part, "cp1")
        self.listener = AgentListener(
            self.handler, self.gate, tls=lambda: own.listening(demand=False), joining=JoinPath(self.side)
        )
        self.address = ""

    async def __aenter__(self):
        sock = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*sock.getsockname())
        await self.listener.start(sock)
        return self

    async def __aexit__(self, *_):
        await self.listener.stop()


def ticket(cluster):
    return Ticket(secret="lj_abcdefgh" + "x" * 32, pin=cluster.authority.pin)


def keep(folder, found):
    write_identity(folder, key=found.key, certificate=found.certificate, authority=found.authority)
    return TlsIdentity(folder, join="llmgw agent join")


async def until(true, seconds=10.0):
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - what is waited for is state of the code under test, which tells nobody
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def running(work):
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_machine_that_joined_connects_as_an_agent_and_is_known_by_its_certificate(cluster, tmp_path):
    async with Plane(cluster, tmp_path / "s") as plane:
        own = keep(tmp_path / "a", await join([plane.address], ticket(cluster), N1))
        assert own.identity == N1
        async with running(AgentConnection(Agent(plane.address), SystemClock(), own).run()):
            await until(lambda: plane.handler.streams)
    assert plane.gate.holders[0].identity == N1
    assert [request.token for request in plane.side.asked] == [ticket(cluster).secret]


async def test_a_control_plane_of_another_cluster_never_sees_the_token(cluster, tmp_path):
    async with Plane(Cluster(), tmp_path) as plane:
        with pytest.raises(Forbidden, match="not of the cluster that made the join token"):
            await join([plane.address], ticket(cluster), N1)
        assert plane.side.asked == []


async def test_the_right_authority_shown_by_somebody_else_is_no_introduction(cluster, tmp_path):
    """Whoever sits between can repeat the authority's certificate, but shows one of his own in the handshake."""
    async with Plane(cluster, tmp_path, shown=Cluster()) as plane:
        with pytest.raises(Forbidden, match="not of the cluster that made the join token"):
            await join([plane.address], ticket(cluster), N1)
        assert plane.side.asked == []


async def test_a_node_of_the_cluster_cannot_pass_for_a_control_plane(cluster, tmp_path):
    async with Plane(cluster, tmp_path / "s", part=Part.NODE) as plane:
        with pytest.raises(Forbidden, match="node cp1"):
            await join([plane.address], ticket(cluster), N1)
        assert plane.side.asked == []
        own = cluster.join(tmp_path / "a", Part.NODE, "n1")
        with pytest.raises(NotJoined, match="node cp1"):
            await renew([plane.address], own)
        before = own.file.read_text()
        async with Plane(cluster, tmp_path / "right") as right:
            await renew([plane.address, right.address], own)
        assert own.file.read_text() != before
        assert plane.side.asked == []
        async with running(AgentConnection(Agent(plane.address), SystemClock(), own).run()):
            await asyncio.sleep(0.5)
            assert plane.gate.holders == []


async def test_what_declines_is_told_and_ends_the_search(cluster, tmp_path):
    async with Plane(cluster, tmp_path / "1") as one, Plane(cluster, tmp_path / "2") as two:
        one.side.answer = Declined(reason="join token lj_abcdefgh expired")
        with pytest.raises(Forbidden, match="expired"):
            await join([one.address, two.address], ticket(cluster), N1)
        assert two.side.asked == []


async def test_a_standby_sends_who_joins_to_the_leader(cluster, tmp_path):
    async with Plane(cluster, tmp_path / "1") as one, Plane(cluster, tmp_path / "2") as two:
        one.side.answer = Refused(reason="this control plane does not lead", leader=two.address)
        assert (await join([one.address], ticket(cluster), N1)).certificate
        assert len(two.side.asked) == 1


async def test_when_nobody_answers_each_is_named(cluster):
    with pytest.raises(NotJoined, match=r"127.0.0.1:1: .*; 127.0.0.1:2: "):
        await join(["127.0.0.1:1", "127.0.0.1:2"], ticket(cluster), N1)


async def test_a_foreign_certificate_opens_no_stream(cluster, tmp_path):
    async with Plane(cluster, tmp_path / "s") as plane:
        foreign = Cluster().join(tmp_path / "a", Part.NODE, "n1", trusts=cluster)
        async with running(AgentConnection(Agent(plane.address), SystemClock(), foreign).run()):
            await asyncio.sleep(0.5)
        assert plane.gate.holders == []
        assert plane.handler.streams == []


async def test_who_has_no_certificate_gets_neither_a_stream_nor_a_renewal(cluster, tmp_path):
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    async with Plane(cluster, tmp_path / "s") as plane:
        root = f"wss://{plane.address}"
        async with connect(f"{root}/agent/v1", ssl=anybody, proxy=None) as stream:
            await stream.send(msgspec.json.encode(Agent("").hello()).decode())
            assert msgspec.json.decode(await stream.recv(), type=Refused).reason == "no certificate"
        async with connect(f"{root}/join/v1", ssl=anybody, proxy=None) as stream:
            await stream.recv()
            await stream.send(msgspec.json.encode(Renew(request="")).decode())
            answer = msgspec.json.decode(await stream.recv(), type=Declined)
            assert answer.reason == "only the holder of a certificate may renew it"
        assert plane.handler.streams == []
        assert plane.side.asked == []


@pytest.mark.parametrize("path", ["/join/v1", "/agent/v1"])
async def test_who_has_no_certificate_cannot_have_large_messages_held(cluster, tmp_path, path):
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    async with (
        Plane(cluster, tmp_path / "s") as plane,
        connect(f"wss://{plane.address}{path}", ssl=anybody, proxy=None) as stream,
    ):
        await stream.send("x" * 100_000)
        await stream.wait_closed()
        assert stream.close_code == CloseCode.MESSAGE_TOO_BIG


async def test_who_comes_again_and_again_does_not_fill_the_log(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(ration.Ration.__init__, "__kwdefaults__", {"most": 2, "within_s": 3600.0})
    foreign = Cluster().join(tmp_path / "x", Part.NODE, "n1").dialling()
    foreign.check_hostname, foreign.verify_mode = False, ssl.CERT_NONE
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    with capture_logs() as logs:
        async with Plane(cluster, tmp_path / "s") as plane:
            for _ in range(5):
                with contextlib.suppress(OSError, WebSocketException):
                    async with connect(f"wss://{plane.address}/join/v1", ssl=foreign, proxy=None) as stream:
                        await stream.recv()
                async with connect(f"wss://{plane.address}/join/v1", ssl=anybody, proxy=None) as stream:
                    await stream.recv()
                    await stream.send("no request")
                    await stream.wait_closed()
    told = Counter(line["event"] for line in logs)
    assert (told["tls.refused"], told["join.refused"]) == (2, 2)


async def test_a_machine_that_is_removed_loses_its_stream_at_once(cluster, tmp_path):
    async with Plane(cluster, tmp_path / "s") as plane:
        own = cluster.join(tmp_path / "a", Part.NODE, "n1")
        async with running(AgentConnection(Agent(plane.address), SystemClock(), own).run()):
            await until(lambda: plane.handler.streams)
            plane.listener.look()
            await asyncio.sleep(0.1)
            assert plane.handler.streams
            plane.gate.refused["n1"] = "it was removed"
            plane.listener.look()
            await until(lambda: not plane.handler.streams)


async def test_a_certificate_is_renewed_in_time_with_a_new_key_and_the_stream_stays(cluster, tmp_path):
    async with Plane(cluster, tmp_path / "s") as plane:
        own = cluster.join(tmp_path / "a", Part.NODE, "n1", age=timedelta(days=5))
        before, ends = own.file.read_text(), own.ends
        connection = AgentConnection(Agent(plane.address), SystemClock(), own)
        keeping = keep_certificate(own, lambda: [plane.address], SystemClock(), look_s=0.05)
        async with running(connection.run()), running(keeping):
            await until(lambda: connection.connected)
            await until(lambda: own.ends > ends)
            assert connection.connected
            await asyncio.sleep(0.3)
        assert len(plane.side.asked) == 1
        assert own.file.read_text() != before
        assert own.file.stat().st_mode & 0o777 == 0o600
        # What was renewed opens the next stream.
        async with running(connection.run()):
            await until(lambda: connection.connected)


async def test_a_certificate_that_is_young_is_left_alone(cluster, tmp_path):
    async with Plane(cluster, tmp_path / "s") as plane:
        own = cluster.join(tmp_path / "a", Part.NODE, "n1")
        async with running(keep_certificate(own, lambda: [plane.address], SystemClock(), look_s=0.02)):
            await asyncio.sleep(0.3)
        assert plane.side.asked == []


@pytest.mark.parametrize("text", ["", "lj_abc", "lk_abcdefghxxxx.pin", "lj_abcdefgh.", "lj_ä.pin"])
def test_what_is_no_token_is_told_without_repeating_it(text):
    with pytest.raises(InvalidInput) as caught:
        read_ticket(text)
    assert caught.value.field == "token"
    assert not text or text not in str(caught.value)


def test_a_token_may_be_read_with_the_line_around_it(cluster):
    assert read_ticket(f" {ticket(cluster)}\n") == ticket(cluster)


async def test_control_planes_that_name_one_another_are_not_asked_for_ever(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_ASKED", 3)
    async with Plane(cluster, tmp_path) as plane:
        named = (f"127.0.0.1:{port}" for port in range(1, 100))
        with pytest.raises(NotJoined) as caught:
            await join([*named, plane.address], ticket(cluster), N1)
    assert plane.side.asked == []
    assert "127.0.0.1:3:" in caught.value.message
    assert "127.0.0.1:4:" not in caught.value.message
