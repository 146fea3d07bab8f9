"""The door as a process: it outlives the agent, streams, passes on cancellation, drains and ends with 0."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from llmgw.link import frames
from llmgw.schema.door import DoorReading, DoorShard, DoorUpdate
from llmgw.testing.raw_http import Client, Upstream

DEADLINE_S = 20
POST = b"POST /shards/r1.0/v1/completions HTTP/1.1\r\nHost: d\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Running:
    """A door process and what the test needs of it."""

    def __init__(self, process: asyncio.subprocess.Process, data_dir: Path) -> None:
        self.process = process
        self.data_dir = data_dir
        self.port = 0

    async def up(self) -> None:
        path = self.data_dir / "door.json"
        async with asyncio.timeout(DEADLINE_S):
            while not path.exists():
                assert self.process.returncode is None
                await asyncio.sleep(0.02)
        told = json.loads(path.read_text())
        assert told["pid"] == self.process.pid
        self.port = int(told["listen"].rsplit(":", 1)[1])

    async def tell(self, update: DoorUpdate) -> None:
        """Be the agent: hand in a set and go."""
        _, writer = await asyncio.open_unix_connection(self.data_dir / "door.sock")
        writer.write(frames.pack(update))
        await writer.drain()
        writer.close()
        async with asyncio.timeout(DEADLINE_S):
            while (await self.get("/healthz"))["shards"] != len(update.shards):  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.02)

    async def get(self, path: str) -> dict[str, object]:
        client = await Client.connect(self.port)
        await client.send(f"GET {path} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n".encode())
        _, _, body = await client.answer()
        client.writer.close()
        return json.loads(body)

    async def ends(self) -> int:
        return await asyncio.wait_for(self.process.wait(), DEADLINE_S)


@pytest.fixture
async def door(tmp_path) -> AsyncIterator[Running]:
    config = tmp_path / "door.toml"
    config.write_text(f'data_dir = "{tmp_path}"\nlisten = "127.0.0.1:0"\nlog_format = "json"\n')
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "llmgw", "door", "--config", str(config))
    running = Running(process, tmp_path)
    try:
        await running.up()
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
async def engine() -> AsyncIterator[tuple[Upstream, asyncio.Event]]:
    """Give an engine that answers half, waits for the event, and answers the rest."""
    go = asyncio.Event()

    async def script(line):
        while True:
            await line.request()
            line.write(CHUNKED + b"3\r\none\r\n")
            leaving = asyncio.ensure_future(line.peer_left())
            waiting = asyncio.ensure_future(go.wait())
            done, _ = await asyncio.wait({leaving, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if leaving in done:
                waiting.cancel()
                return
            leaving.cancel()
            line.write(b"3\r\ntwo\r\n0\r\n\r\n")

    upstream = Upstream(script)
    await upstream.start()
    yield upstream, go
    await upstream.stop()


def offer(upstream: Upstream) -> DoorUpdate:
    return DoorUpdate(
        shards=(
            DoorShard(
                id="r1.0",
                model="m",
                endpoint=f"http://127.0.0.1:{upstream.port}",
                key="le_secret",
                paths=("/v1/completions",),
            ),
        ),
        readings=(DoorReading(shard="r1.0", age_s=1.0, values={"tokens": 5}),),
    )


async def test_streams_go_on_after_the_agent_left_and_after_the_door_was_asked_to_end(door, engine):
    upstream, go = engine
    await door.tell(offer(upstream))
    client = await Client.connect(door.port)
    await client.send(POST)
    await client.head()
    pieces = client.chunks()
    assert await anext(pieces) == b"one"

    (reading,) = (await door.get("/stats"))["readings"]
    assert reading["values"] == {"tokens": 5.0}
    assert reading["age_s"] >= 1.0
    door.process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                probe = await Client.connect(door.port)
            except ConnectionRefusedError:
                break
            probe.writer.close()
            await asyncio.sleep(0.02)
    go.set()

    assert [piece async for piece in pieces] == [b"two"]
    assert await door.ends() == 0
    client.writer.close()
    assert not (door.data_dir / "door.sock").exists()


async def test_a_caller_that_leaves_closes_the_engines_connection(door, engine):
    upstream, _ = engine
    await door.tell(offer(upstream))
    client = await Client.connect(door.port)
    await client.send(POST)
    await client.head()
    client.writer.close()

    await asyncio.wait_for(upstream.left.wait(), DEADLINE_S)


async def test_an_idle_door_ends_at_once_when_asked(door):
    idle = await Client.connect(door.port)
    door.process.send_signal(signal.SIGTERM)

    assert await door.ends() == 0
    assert await idle.rest() == b""
    idle.writer.close()
