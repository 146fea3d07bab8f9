import asyncio
import struct

import pytest

from llmgw.door.intake import Intake
from llmgw.link import frames
from llmgw.schema.door import DoorShard, DoorUpdate
from llmgw.schema.errors import InvalidInput

UPDATE = DoorUpdate(shards=(DoorShard(id="r1.0", model="m", endpoint="http://127.0.0.1:1", key="k", paths=("/x",)),))


@pytest.fixture
async def intake(tmp_path, shards):
    intake = Intake(tmp_path / "door.sock", shards)
    await intake.open()
    yield intake
    await intake.close()


async def applied(shards, count):
    async with asyncio.timeout(5):
        while len(shards) != count:  # noqa: ASYNC110 -- nothing tells when a set was taken
            await asyncio.sleep(0.001)


async def test_whole_sets_are_taken_and_stay_when_the_agent_goes(tmp_path, intake, shards):
    _, writer = await asyncio.open_unix_connection(tmp_path / "door.sock")
    writer.write(frames.pack(UPDATE))
    await applied(shards, 1)
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(0.01)

    assert shards.find("r1.0") is not None


@pytest.mark.parametrize("bad", [struct.pack(">I", 5) + b"[no]!", struct.pack(">I", 2**31), b"\0\0"])
async def test_a_broken_agent_costs_its_connection_only(tmp_path, intake, shards, bad):
    reader, writer = await asyncio.open_unix_connection(tmp_path / "door.sock")
    writer.write(frames.pack(UPDATE))
    await applied(shards, 1)
    writer.write(bad)
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()

    assert len(shards) == 1
    _, again = await asyncio.open_unix_connection(tmp_path / "door.sock")
    again.write(frames.pack(DoorUpdate()))
    await applied(shards, 0)
    again.close()


async def test_the_socket_is_for_its_owner_only_and_goes_with_the_door(tmp_path, shards):
    intake = Intake(tmp_path / "door.sock", shards)
    await intake.open()
    assert (tmp_path / "door.sock").stat().st_mode & 0o777 == 0o600

    await intake.close()

    assert not list(tmp_path.iterdir())


async def test_a_socket_left_by_an_earlier_door_is_replaced(tmp_path, intake, shards):
    second = Intake(tmp_path / "door.sock", shards)
    await second.open()
    _, writer = await asyncio.open_unix_connection(tmp_path / "door.sock")
    writer.write(frames.pack(UPDATE))
    await applied(shards, 1)
    writer.close()
    await second.close()


async def test_a_folder_that_cannot_hold_the_socket_is_named(tmp_path, shards):
    with pytest.raises(InvalidInput, match="missing"):
        await Intake(tmp_path / "missing" / "door.sock", shards).open()
