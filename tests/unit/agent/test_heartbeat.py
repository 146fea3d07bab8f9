import asyncio
import contextlib

import msgspec
import pytest

from llmgw.agent.heartbeat import Heart
from llmgw.agent.obeyed import Obeyed
from llmgw.schema.link import Heartbeat, LogReply
from llmgw.schema.report import Load
from llmgw.testing.factories import make_node


class Link:
    """Stands where the connection is."""

    def __init__(self):
        self.connected = True
        self.sent = []
        self.news = asyncio.Event()

    async def send(self, message):
        if self.connected:
            self.sent.append(message)
            self.news.set()
        return self.connected

    async def next(self):
        async with asyncio.timeout(20):
            while not self.sent:
                self.news.clear()
                await self.news.wait()
        return self.sent.pop(0)


class Room:
    def __init__(self, tmp_path):
        self.token = tmp_path / "token"
        self.token.write_text("secret\n")
        self.facts = make_node().facts
        self.link = Link()
        self.heart = Heart(
            node="n1",
            token_file=self.token,
            heartbeat_s=3600.0,
            facts=lambda: self.facts,
            reports=tuple,
            obeyed=lambda: Obeyed(epoch=2, holder="h", generation=7),
            load=lambda: Load(age_s=0.5, cpu_percent=12.0),
        )


@pytest.fixture
async def room(tmp_path):
    room = Room(tmp_path)
    task = asyncio.create_task(room.heart.run(room.link))
    yield room
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_hello_holds_everything_and_the_token_without_its_line_end(room):
    hello = room.heart.hello()
    assert (hello.node, hello.token, hello.facts) == ("n1", "secret", room.facts)
    assert (hello.epoch, hello.holder, hello.generation) == (2, "h", 7)


async def test_a_missing_token_is_an_os_error(room):
    room.token.unlink()
    with pytest.raises(FileNotFoundError):
        room.heart.hello()


async def test_changes_are_told_at_once_and_together(room):
    room.heart.hello()
    for _ in range(5):
        room.heart.changed()
    beat = await room.link.next()
    assert beat == Heartbeat(shards=(), generation=7, facts=None, load=Load(age_s=0.5, cpu_percent=12.0))
    await asyncio.sleep(0.1)
    assert room.link.sent == []


async def test_facts_are_told_once_when_they_differ(room):
    room.heart.hello()
    room.facts = msgspec.structs.replace(room.facts, door="127.0.0.1:8802")
    room.heart.changed()
    assert (await room.link.next()).facts == room.facts
    room.heart.changed()
    assert (await room.link.next()).facts is None


async def test_facts_that_found_no_stream_are_told_by_the_next_hello(room):
    room.heart.hello()
    room.link.connected = False
    room.facts = msgspec.structs.replace(room.facts, door="127.0.0.1:8802")
    room.heart.changed()
    await asyncio.sleep(0.1)
    assert room.heart.hello().facts.door == "127.0.0.1:8802"


async def test_answers_go_out_in_order_before_the_beat(room):
    room.heart.hello()
    room.heart.reply(LogReply(id=1))
    room.heart.reply(LogReply(id=2))
    assert [await room.link.next(), await room.link.next()] == [LogReply(id=1), LogReply(id=2)]
    assert isinstance(await room.link.next(), Heartbeat)


async def test_a_new_stream_does_not_get_answers_of_the_old_one(room):
    room.link.connected = False
    room.heart.reply(LogReply(id=1))
    room.heart.hello()
    room.link.connected = True
    assert isinstance(await room.link.next(), Heartbeat)
