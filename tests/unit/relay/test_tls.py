"""The relay over TLS: who is let in, how a caller leaves, and that nothing else changes."""

import asyncio
import contextlib
import json
import socket
import ssl

import pytest
from structlog.testing import capture_logs

from llmgw.link.peers import admitting, expecting
from llmgw.relay import connection as relay_connection
from llmgw.relay import server as relay_server
from llmgw.relay.errors import ClientGone, UpstreamUnreachable
from llmgw.relay.forward import pipe
from llmgw.relay.limits import Limits
from llmgw.relay.server import HttpServer
from llmgw.relay.tls import LEAVING, ClientTls, ServerTls
from llmgw.relay.upstream import Endpoint, UpstreamPool
from llmgw.schema.identity import Part
from llmgw.testing.identities import Cluster
from llmgw.testing.raw_http import Client

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def cluster():
    return Cluster()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("identities")


@pytest.fixture(scope="module")
def gateway(cluster, folder):
    return cluster.join(folder / "gateway", Part.GATEWAY, "g1")


@pytest.fixture(scope="module")
def node(cluster, folder):
    return cluster.join(folder / "node", Part.NODE, "n1")


class Served:
    """A server over TLS, and pools that dial it."""

    def __init__(self, server, port, node):
        self.server, self.port, self.node = server, port, node
        self.pools = []

    def pool(self, identity, **options):
        self.pools.append(UpstreamPool(tls=ClientTls(identity.dialling(), expecting(Part.NODE)), **options))
        return self.pools[-1]

    async def ask(self, pool, *, name="n1", **options):
        return await pool.request(
            Endpoint("127.0.0.1", self.port, name),
            method="GET",
            path="/",
            headers=(),
            body=b"",
            first_byte_timeout_s=5,
            **options,
        )

    def overdue(self, seconds):
        now = asyncio.get_running_loop().time() + seconds
        for connection in tuple(self.server._connections):
            connection.check(now)


@pytest.fixture
async def serve(node):
    """Give a function that serves a handler behind a node's certificate, to gateways only."""
    started = []

    async def start(handler, *, gate=True, **limits):
        server = HttpServer(
            handler, Limits(**limits), lambda status, code, _: json.dumps({"status": status, "code": code}).encode()
        )
        sock = socket.create_server(("127.0.0.1", 0))
        context = node.listening() if gate else node.listening(demand=False)
        await server.serve(sock, ServerTls(context, admitting(Part.GATEWAY) if gate else None))
        started.append(Served(server, sock.getsockname()[1], node))
        return started[-1]

    yield start
    for one in started:
        for pool in one.pools:
            pool.close()
        await one.server.drain(0)


class Handler:
    """Answers `ok`, and counts."""

    def __init__(self):
        self.asked = 0

    async def __call__(self, exchange):
        self.asked += 1
        exchange.respond(200, [], b"ok")


class Staying:
    """A handler that hears of its caller's leaving and ends when told, as the door's does."""

    def __init__(self, *, begin=False):
        self.begin = begin
        self.began, self.left, self.go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def __call__(self, exchange):
        exchange.stays = True
        exchange.on_gone(self.left.set)
        if self.begin:
            exchange.start(200, [])
            exchange.write(b"one")
        self.began.set()
        await self.go.wait()
        if not exchange.started:
            exchange.start(200, [])
        exchange.end()


async def test_requests_share_a_connection_whose_both_ends_know_each_other(serve, gateway):
    handler = Handler()
    served = await serve(handler)
    pool = served.pool(gateway)

    for _ in range(3):
        response = await served.ask(pool)
        assert (response.status, await response.read(10)) == (200, b"ok")

    assert handler.asked == 3
    assert served.server.open_connections == 1


async def test_a_gateway_whose_certificate_ended_cannot_stay_by_asking_on(serve, gateway, monkeypatch):
    monkeypatch.setattr(relay_connection, "KNOWN_S", -1.0)
    handler = Handler()
    served = await serve(handler)
    pool = served.pool(gateway)
    for _ in range(3):
        response = await served.ask(pool)
        assert (response.status, await response.read(10)) == (200, b"ok")
        assert not pool._idle
    assert handler.asked == 3


@pytest.mark.parametrize(
    ("part", "reason"),
    [(Part.NODE, "it is node x; only a gateway is let in here"), (Part.SERVER, "it is server x; only a gateway")],
)
async def test_a_part_that_has_no_business_here_is_turned_away_before_it_is_read(
    serve, cluster, tmp_path, part, reason
):
    handler = Handler()
    served = await serve(handler)
    stranger = served.pool(cluster.join(tmp_path, part, "x"))

    with capture_logs() as logs, contextlib.suppress(Exception):
        await served.ask(stranger)

    refused = [line for line in logs if line["event"] == "tls.peer_refused"]
    assert (refused[0]["peer"], refused[0]["reason"].startswith(reason)) == ("127.0.0.1", True)
    assert handler.asked == 0


async def test_a_certificate_of_another_cluster_gets_no_connection(serve, cluster, tmp_path):
    handler = Handler()
    served = await serve(handler)
    foreign = Cluster().join(tmp_path, Part.GATEWAY, "g1", trusts=cluster)

    with capture_logs() as logs, contextlib.suppress(Exception):
        await served.ask(served.pool(foreign))

    assert handler.asked == 0
    assert [line["reason"] for line in logs if line["event"] == "tls.refused"]


async def test_who_shows_no_certificate_or_speaks_no_tls_is_not_answered(serve):
    handler = Handler()
    served = await serve(handler)
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE

    for context in (bare, None):
        with contextlib.suppress(OSError):
            client = Client(*await asyncio.open_connection("127.0.0.1", served.port, ssl=context))
            await client.send(GET)
            assert b"HTTP" not in await client.rest()
            client.writer.transport.abort()

    assert handler.asked == 0


async def test_a_client_that_does_not_shake_hands_holds_nothing(serve, monkeypatch):
    monkeypatch.setattr(relay_server, "HANDSHAKE_S", 0.05)
    served = await serve(Handler())
    silent = await Client.connect(served.port)

    async with asyncio.timeout(5):
        assert await silent.rest() == b""
    silent.writer.close()


async def test_nothing_is_sent_to_a_node_of_another_name(serve, gateway):
    handler = Handler()
    served = await serve(handler)

    with pytest.raises(UpstreamUnreachable, match=r"n2 at 127.0.0.1:\d+ is refused: it is node n1, not node n2"):
        await served.ask(served.pool(gateway), name="n2")

    assert handler.asked == 0


async def test_a_node_of_another_cluster_is_not_asked(serve, tmp_path):
    handler = Handler()
    served = await serve(handler)
    elsewhere = Cluster().join(tmp_path, Part.GATEWAY, "g1")

    with pytest.raises(UpstreamUnreachable, match="cannot connect to upstream n1 at"):
        await served.ask(served.pool(elsewhere))

    assert handler.asked == 0


async def test_an_upstream_that_does_not_shake_hands_is_unreachable(upstream, gateway):
    async def script(line):
        await line.peer_left()

    started = await upstream(script)
    pool = UpstreamPool(connect_timeout_s=0.05, tls=ClientTls(gateway.dialling(), expecting(Part.NODE)))

    with pytest.raises(UpstreamUnreachable, match="took no connection in"):
        await pool.request(
            Endpoint("127.0.0.1", started.port, "n1"),
            method="GET",
            path="/",
            headers=(),
            body=b"",
            first_byte_timeout_s=5,
        )
    await asyncio.wait_for(started.left.wait(), 5)


async def test_a_pool_without_an_identity_says_so(pool):
    with pytest.raises(UpstreamUnreachable, match="wants TLS, which this process is not set up for"):
        await pool.request(
            Endpoint("127.0.0.1", 9, "n1"), method="GET", path="/", headers=(), body=b"", first_byte_timeout_s=1
        )


def test_an_address_with_tls_needs_a_name():
    assert Endpoint.from_url("https://h:1", peer="n1") == Endpoint("h", 1, "n1")
    assert Endpoint.from_url("https://h", peer="n1").port == 443
    assert Endpoint.from_url("http://h:1", peer="n1") == Endpoint("h", 1)


@pytest.mark.parametrize("begin", [False, True])
async def test_a_caller_that_leaves_with_patience_is_noticed_at_once_and_told_when_its_request_was_let_go(
    serve, gateway, begin
):
    handler = Staying(begin=begin)
    served = await serve(handler)
    pool = served.pool(gateway)
    if begin:
        response = await served.ask(pool, linger_s=120)
        response.close()
        waiting = asyncio.ensure_future(response.left())
    else:
        waiting = asyncio.ensure_future(served.ask(pool, linger_s=120))
        await asyncio.wait_for(handler.began.wait(), 5)
        waiting.cancel()

    await asyncio.wait_for(handler.left.wait(), 5)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    handler.go.set()
    await asyncio.wait({waiting}, timeout=5)

    assert waiting.done()
    assert not pool._open


async def test_a_caller_that_leaves_without_patience_is_noticed(serve, gateway):
    handler = Staying(begin=True)
    served = await serve(handler)
    response = await served.ask(served.pool(gateway))
    response.close()

    await asyncio.wait_for(handler.left.wait(), 5)
    handler.go.set()


async def test_a_caller_that_leaves_in_the_moment_it_asked_is_not_forgotten(serve, gateway):
    handler = Staying()
    handler.go.set()
    served = await serve(handler)
    context = gateway.dialling()
    client = Client(*await asyncio.open_connection("127.0.0.1", served.port, ssl=context, server_hostname=""))
    await client.send(GET + LEAVING)

    async with asyncio.timeout(5):
        assert await client.rest() == b""
    client.writer.transport.abort()


async def test_a_caller_that_leaves_as_its_answer_ends_is_let_go(serve, gateway):
    served = await serve(Handler())
    context = gateway.dialling()
    client = Client(*await asyncio.open_connection("127.0.0.1", served.port, ssl=context, server_hostname=""))
    await client.send(GET)
    await client.answer()
    await client.send(LEAVING)

    async with asyncio.timeout(5):
        assert await client.rest() == b""
    client.writer.transport.abort()


async def test_a_slow_client_pauses_the_upstream_and_loses_nothing(serve, upstream, pool, gateway, until):
    sent = 0
    whole = 64 * 1024 * 1024

    async def script(line):
        nonlocal sent
        await line.request()
        line.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % whole)
        while sent < whole:
            line.write(b"x" * 65536)
            await line.writer.drain()
            sent += 65536

    started = await upstream(script)

    async def handler(exchange):
        response = await pool.request(
            started.endpoint, method="GET", path="/", headers=(), body=b"", first_byte_timeout_s=5
        )
        await pipe(response, exchange, headers=response.headers, idle_timeout_s=30)

    served = await serve(handler)
    response = await served.ask(served.pool(gateway))
    before = -1
    while sent != before:
        before = sent
        await asyncio.sleep(0.1)
    assert sent < whole / 2

    size = 0
    async for piece in response.chunks():
        size += len(piece)
    assert size == whole


async def test_a_client_that_leaves_a_stream_ends_it_at_its_source(serve, upstream, pool, gateway):
    outcome = asyncio.get_running_loop().create_future()

    async def script(line):
        await line.request()
        line.write(CHUNKED + b"3\r\none\r\n")
        await line.peer_left()

    started = await upstream(script)

    async def handler(exchange):
        response = await pool.request(
            started.endpoint, method="GET", path="/", headers=(), body=b"", first_byte_timeout_s=5
        )
        try:
            await pipe(response, exchange, headers=response.headers, idle_timeout_s=30)
        except ClientGone as error:
            outcome.set_result(error)
            raise

    served = await serve(handler)
    response = await served.ask(served.pool(gateway))
    assert await anext(response.chunks()) == b"one"
    response.close()

    await asyncio.wait_for(started.left.wait(), 5)
    assert isinstance(await outcome, ClientGone)


class Anybody:
    """A client of `/v1`, without a certificate."""

    def __init__(self, served):
        self._served = served

    async def connect(self):
        context = ssl.create_default_context(cafile=str(self._served.node.authority_file))
        return Client(*await asyncio.open_connection("127.0.0.1", self._served.port, ssl=context))


async def test_a_refused_request_is_answered_whole_and_its_connection_ended(serve):
    served = await serve(Handler(), gate=False)
    client = await Anybody(served).connect()
    await client.send(b"nonsense\r\n\r\n")
    status, headers, body = await client.answer()

    assert (status, json.loads(body)["code"], headers["connection"]) == (400, "bad_request", "close")
    await client.send(b"still more")
    served.overdue(3)
    async with asyncio.timeout(5):
        with contextlib.suppress(ConnectionError):
            assert await client.rest() == b""
    client.writer.transport.abort()


async def test_an_empty_line_after_a_request_means_nothing_from_anybody(serve):
    go = asyncio.Event()

    async def handler(exchange):
        await go.wait()
        exchange.respond(200, [], b"ok")

    served = await serve(handler, gate=False)
    client = await Anybody(served).connect()
    await client.send(GET + b"\n")
    await client.send(b"\n")
    go.set()

    assert (await client.answer())[2] == b"ok"
    client.writer.transport.abort()


async def test_a_server_that_drains_lets_idle_clients_go_and_running_answers_end(serve, gateway):
    handler = Staying(begin=True)
    served = await serve(handler)
    idle = Client(*await asyncio.open_connection("127.0.0.1", served.port, ssl=gateway.dialling(), server_hostname=""))
    response = await served.ask(served.pool(gateway))
    draining = asyncio.ensure_future(served.server.drain(30))
    async with asyncio.timeout(5):
        assert await idle.rest() == b""
        handler.go.set()
        assert await response.read(10) == b"one"
        await draining
    idle.writer.transport.abort()


async def test_an_answer_that_is_cut_is_seen_as_cut(serve):
    async def handler(exchange):
        exchange.start(200, [])
        exchange.write(b"ab")

    served = await serve(handler, gate=False)
    client = await Anybody(served).connect()
    await client.send(b"GET / HTTP/1.0\r\n\r\n")
    await client.head()

    with pytest.raises((ConnectionError, ssl.SSLError)):
        await client.rest()
    client.writer.transport.abort()


async def test_a_renewed_certificate_is_shown_to_new_connections_and_old_ones_live_on(
    serve, cluster, node, folder, gateway
):
    handler = Staying(begin=True)
    served = await serve(handler)
    pool = served.pool(gateway)
    response = await served.ask(pool)
    before = response._carrier.transport.get_extra_info("ssl_object").getpeercert()["serialNumber"]

    cluster.join(folder / "node", Part.NODE, "n1")
    assert node.reload()
    second = await served.ask(pool)

    assert second._carrier.transport.get_extra_info("ssl_object").getpeercert()["serialNumber"] != before
    handler.go.set()
    assert (await response.read(10), await second.read(10)) == (b"one", b"one")
