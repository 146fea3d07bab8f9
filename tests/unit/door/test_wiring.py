import asyncio
import json
import os
import socket

import pytest

from llmgw.config.door import DoorConfig
from llmgw.door.wiring import run_door
from llmgw.schema.errors import InvalidInput


async def test_a_door_whose_port_is_taken_says_where_it_listens_instead(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        wanted = f"127.0.0.1:{other.getsockname()[1]}"
        stop = asyncio.Event()
        running = asyncio.create_task(run_door(DoorConfig(data_dir=str(tmp_path), listen=wanted), stop))
        async with asyncio.timeout(5):
            while not (tmp_path / "door.json").exists():  # noqa: ASYNC110 -- the file is the signal
                await asyncio.sleep(0.001)
        told = json.loads((tmp_path / "door.json").read_text())
        host, port = told["listen"].split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        stop.set()
        await asyncio.wait_for(running, 5)

    assert told["pid"] == os.getpid()
    assert told["listen"] != wanted
    assert (tmp_path / "door.json").stat().st_mode & 0o777 == 0o600


async def test_an_address_of_another_machine_is_named(tmp_path):
    config = DoorConfig(data_dir=str(tmp_path), listen="192.0.2.1:8802", tls="off")

    with pytest.raises(InvalidInput, match=r"192\.0\.2\.1"):
        await run_door(config, asyncio.Event())
