import asyncio
import contextlib
import socket
import time

import msgspec
import pytest
from structlog.testing import capture_logs
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from llmgw.link import server as module
from llmgw.link.server import AgentListener, TokenGate
from llmgw.schema.desired import DesiredState, Mode
from llmgw.schema.link import Hello, Order, Ping, Refused, ServerMessage, Welcome
from llmgw.testing.fake_agent import FakeAgent
from llmgw.testing.fake_node import FakeNode

TOKEN = "right-token"


class Handler:
    """Admits everybody and remembers what it was told."""

    def __init__(self):
        self.refuse = None
        self.streams = []
        self.messages = []
        self.gone = []
        self.signs = 0

    async def settle(self, hello):
        """Let nobody wait."""

    def admit(self, hello):
        return self.refuse or Welcome(epoch=3, holder="h1")

    def opened(self, stream, hello):
        self.streams.append(stream)

    def heard(self, stream):
        self.signs += 1

    def said(self, stream, message):
        self.messages.append(message)

    def closed(self, stream):
        self.gone.append(stream)


@pytest.fixture
async def listening():
    handler = Handler()
    listener = AgentListener(handler, TokenGate(TOKEN))
    sock = socket.create_server(("127.0.0.1", 0))
    await listener.start(sock)
    yield handler, listener, "{}:{}".format(*sock.getsockname())
    await listener.stop()


async def until(true, seconds=5.0):
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - what is waited for is state of the code under test, which tells nobody
            await asyncio.sleep(0.005)


def order(generation, mode=Mode.ENFORCE):
    return Order(state=DesiredState(epoch=3, holder="h1", generation=generation, mode=mode))


@contextlib.asynccontextmanager
async def running(agent):
    task = asyncio.ensure_future(agent.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_agent_with_the_right_token_is_taken_on_and_gets_orders(listening):
    handler, _, address = listening
    agent = FakeAgent(FakeNode("n1"), address=address, token=TOKEN)
    async with running(agent):
        await until(lambda: handler.streams)
        handler.streams[0].send(order(7))
        await until(lambda: agent.node.generation == 7)
        await until(lambda: handler.messages)
    assert agent.welcome == Welcome(epoch=3, holder="h1")
    assert handler.streams[0].node == "n1"


async def test_a_wrong_token_is_refused_before_the_handler_hears_of_it(listening):
    handler, _, address = listening
    agent = FakeAgent(FakeNode("n1"), address=address, token="wrong")
    await agent.run()
    assert agent.welcome is None
    assert "token" in agent.refused.reason
    assert handler.streams == []


async def test_a_refusal_of_the_handler_reaches_the_agent_with_the_leader(listening):
    handler, _, address = listening
    handler.refuse = Refused(reason="standing by", leader="10.0.0.2:8801")
    agent = FakeAgent(FakeNode("n1"), address=address, token=TOKEN)
    await agent.run()
    assert agent.refused == handler.refuse
    assert handler.streams == []


async def test_of_several_orders_not_sent_yet_the_last_one_is_sent(listening):
    handler, _, address = listening
    agent = FakeAgent(FakeNode("n1"), address=address, token=TOKEN)
    obeyed = []
    obey = agent.node.obey
    agent.node.obey = lambda state: (obeyed.append(state.generation), obey(state))[1]
    async with running(agent):
        await until(lambda: handler.streams)
        for generation in (1, 2, 3):
            handler.streams[0].send(order(generation))
        await until(lambda: obeyed)
    assert obeyed == [3]


async def test_closing_a_stream_reaches_the_agent_at_once(listening):
    handler, _, address = listening
    agent = FakeAgent(FakeNode("n1"), address=address, token=TOKEN)
    async with running(agent) as task:
        await until(lambda: handler.streams)
        handler.streams[0].close("over")
        async with asyncio.timeout(1.0):
            await task
        await until(lambda: handler.gone == handler.streams)


async def test_stopping_the_listener_ends_all_streams(listening):
    handler, listener, address = listening
    agents = [FakeAgent(FakeNode(f"n{number}"), address=address, token=TOKEN) for number in range(20)]
    tasks = [asyncio.ensure_future(agent.run()) for agent in agents]
    await until(lambda: len(handler.streams) == 20)
    async with asyncio.timeout(2.0):
        await listener.stop()
        await asyncio.gather(*tasks)
    assert len(handler.gone) == 20


async def test_a_stream_without_a_byte_is_dead(listening, monkeypatch):
    monkeypatch.setattr(module, "DEAD_S", 0.05)
    handler, _, address = listening
    async with connect(f"ws://{address}/agent/v1", ping_interval=None) as stream:
        await stream.send(msgspec.json.encode(FakeNode("n1").hello(TOKEN)).decode())
        await until(lambda: handler.gone)


async def test_what_came_while_the_server_itself_was_stuck_is_a_sign_of_life(listening, monkeypatch):
    monkeypatch.setattr(module, "DEAD_S", 0.2)
    handler, _, address = listening
    async with connect(f"ws://{address}/agent/v1", ping_interval=None) as stream:
        await stream.send(msgspec.json.encode(FakeNode("n1").hello(TOKEN)).decode())
        await stream.recv()
        await until(lambda: handler.streams)
        await stream.send(msgspec.json.encode(Ping()).decode())
        time.sleep(0.4)  # noqa: ASYNC251 - the loop is to be stuck: silence and message are then seen together
        await until(lambda: handler.signs)
        assert handler.gone == []


async def test_signs_of_life_keep_a_stream_and_are_sent_by_the_server_too(listening, monkeypatch):
    monkeypatch.setattr(module, "DEAD_S", 0.5)
    monkeypatch.setattr(module, "PING_S", 0.05)
    handler, _, address = listening
    async with connect(f"ws://{address}/agent/v1", ping_interval=None) as stream:
        await stream.send(msgspec.json.encode(FakeNode("n1").hello(TOKEN)).decode())
        welcome = msgspec.json.decode(await stream.recv(), type=ServerMessage)
        for _ in range(8):
            await stream.send(msgspec.json.encode(Ping()).decode())
            assert isinstance(msgspec.json.decode(await stream.recv(), type=ServerMessage), Ping)
            await asyncio.sleep(0.1)
        assert isinstance(welcome, Welcome)
        assert handler.signs == 8
        assert handler.gone == []


@pytest.mark.parametrize(
    "first",
    [b"not json", msgspec.json.encode(Ping()), b'{"type":"hello"}', b"\xff\xfe"],
    ids=["noise", "ping", "half a hello", "bytes"],
)
async def test_a_stream_that_does_not_begin_with_a_hello_is_closed(listening, first):
    handler, _, address = listening
    async with connect(f"ws://{address}/agent/v1", ping_interval=None) as stream:
        await stream.send(first)
        with pytest.raises(ConnectionClosed):
            await stream.recv()
    assert handler.streams == []


async def test_an_unreadable_message_ends_the_stream(listening):
    handler, _, address = listening
    async with connect(f"ws://{address}/agent/v1", ping_interval=None) as stream:
        await stream.send(msgspec.json.encode(FakeNode("n1").hello(TOKEN)).decode())
        await stream.recv()
        await stream.send('{"type":"heartbeat"}')
        with pytest.raises(ConnectionClosed):
            await stream.recv()
    await until(lambda: handler.gone == handler.streams)
    assert handler.messages == []


async def test_another_path_is_no_agents_address(listening):
    handler, _, address = listening
    with pytest.raises(InvalidStatus, match="404"):
        await connect(f"ws://{address}/", ping_interval=None)
    assert handler.streams == []


async def test_the_token_is_nowhere_in_the_logs(listening, capsys):
    _, _, address = listening
    await FakeAgent(FakeNode("n1"), address=address, token="my-own-wrong-token").run()
    captured = capsys.readouterr()
    assert "wrong-token" not in captured.out + captured.err
    assert isinstance(FakeNode("n1").hello("x"), Hello)


async def test_agents_that_all_come_at_once_find_room_while_the_loop_is_busy(listening):
    _, _, address = listening
    host, _, port = address.partition(":")
    with contextlib.ExitStack() as stack:
        # Blocking on purpose: nobody accepts meanwhile. A full queue would answer to a second try only, a second later.
        for _ in range(400):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=0.9))


async def test_an_agent_that_is_removed_while_it_is_welcomed_is_not_taken_on():
    removed = False

    class Gate:
        def refuse(self, hello, holder):
            return f"node {hello.node} was removed" if removed else None

    class Settling(Handler):
        async def settle(self, hello):
            nonlocal removed
            removed = True

    handler = Settling()
    listener = AgentListener(handler, Gate())
    sock = socket.create_server(("127.0.0.1", 0))
    await listener.start(sock)
    agent = FakeAgent(FakeNode("n1"), address="{}:{}".format(*sock.getsockname()), token=TOKEN)
    async with running(agent) as task:
        await asyncio.wait([task], timeout=5.0)
    await listener.stop()
    assert handler.streams == []


async def test_refusals_under_ever_new_names_fill_neither_the_log_nor_memory(listening, monkeypatch):
    _, _, address = listening
    monkeypatch.setattr(module, "MOST_TOLD", 3)
    with capture_logs() as logs:
        for number in range(6):
            agent = FakeAgent(FakeNode(f"{number}" + "n" * 100_000), address=address, token="wrong")
            async with running(agent) as task:
                await asyncio.wait([task], timeout=5.0)
    assert 0 < len([line for line in logs if line["event"] == "agent.refused"]) <= 3
    assert len(str(logs)) < 5_000
