import asyncio
import contextlib
import socket

from llmgw.link.client import AgentConnection
from llmgw.schema.desired import Mode
from llmgw.schema.link import Heartbeat, Hello, Order, Refused, Welcome
from llmgw.telemetry.clock import SystemClock
from llmgw.testing.factories import make_node
from llmgw.testing.fake_control import FakeControl


class Side:
    def __init__(self, *addresses):
        self.servers = addresses
        self.welcomes: list[Welcome] = []
        self.messages = []
        self.token = "agent-token"

    def addresses(self):
        return self.servers

    def hello(self):
        if self.token is None:
            raise FileNotFoundError(2, "No such file", "token")
        return Hello(node="n1", token=self.token, facts=make_node().facts, shards=(), epoch=3, holder="h", generation=4)

    def welcomed(self, welcome):
        self.welcomes.append(welcome)

    def received(self, message):
        self.messages.append(message)


@contextlib.asynccontextmanager
async def connecting(side):
    connection = AgentConnection(side, SystemClock())
    task = asyncio.create_task(connection.run())
    try:
        yield connection
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def eventually(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


async def test_a_stream_starts_with_hello_and_carries_messages_both_ways():
    async with FakeControl(epoch=8) as control:
        side = Side(control.address)
        async with connecting(side) as connection:
            await control.until(lambda: control.connected)
            assert control.hellos[0].generation == 4
            await eventually(lambda: connection.connected)
            assert side.welcomes[0].epoch == 8
            control.order(mode=Mode.OBSERVE, generation=4)
            await eventually(lambda: side.messages)
            assert isinstance(side.messages[0], Order)
            assert await connection.send(Heartbeat(shards=(), generation=4))
            await control.until(lambda: bool(control.messages))


async def test_a_message_without_a_stream_is_dropped():
    connection = AgentConnection(Side(free_address()), SystemClock())
    assert not connection.connected
    assert not await connection.send(Heartbeat(shards=(), generation=1))


async def test_a_stream_that_ends_is_dialled_again():
    async with FakeControl() as control, connecting(Side(control.address)):
        await control.until(lambda: control.connected)
        control.hang_up()
        await control.until(lambda: len(control.hellos) == 2)


async def test_a_dead_control_plane_is_passed_over_for_the_next():
    async with FakeControl() as control, connecting(Side(free_address(), control.address)):
        await control.until(lambda: control.connected)


async def test_a_standby_that_names_the_leader_sends_agents_there():
    async with FakeControl() as leader, FakeControl() as standby:
        standby.refuse = Refused(reason="standing by", leader=leader.address)
        async with connecting(Side(standby.address)):
            await leader.until(lambda: leader.connected)
            assert standby.hellos == []


async def test_a_token_that_cannot_be_read_yet_is_tried_again():
    async with FakeControl() as control:
        side = Side(control.address)
        side.token = None
        async with connecting(side):
            await asyncio.sleep(0.1)
            assert control.hellos == []
            side.token = "agent-token"
            await control.until(lambda: control.connected)


async def test_a_wrong_token_is_refused_and_a_right_one_taken():
    async with FakeControl(token="right") as control:
        side = Side(control.address)
        async with connecting(side) as connection:
            await asyncio.sleep(0.2)
            assert not connection.connected
            side.token = "right"
            await control.until(lambda: control.connected)
