"""A node's door as it is run, and its agent's part: for integration tests."""

import asyncio
import json
import sys
from pathlib import Path

import msgspec

from llmgw.link import frames
from llmgw.schema.door import DoorAddress, DoorShard, DoorUpdate
from llmgw.testing.gateway_process import until


class DoorProcess:
    """`llmgw door` in a folder of its own. `more` are further lines of its configuration."""

    def __init__(self, folder: Path, *, more: str = "") -> None:
        self.data_dir = folder
        self.log = folder / "door.log"
        self.address = ""
        """Where it listens, once started."""
        self._config = folder / "door.toml"
        self._more = more
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it and wait until it says where it listens."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._config.write_text(
            f'data_dir = "{self.data_dir}"\nlisten = "127.0.0.1:0"\nlog_format = "json"\n{self._more}'
        )
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "llmgw", "door", "--config", str(self._config), stderr=log
            )
        file = self.data_dir / "door.json"
        await until(file.exists)
        self.address = msgspec.json.decode(file.read_bytes(), type=DoorAddress).listen

    async def tell(self, *shards: DoorShard) -> None:
        """Be the agent: hand in the engines and go."""
        _, writer = await asyncio.open_unix_connection(self.data_dir / "door.sock")
        writer.write(frames.pack(DoorUpdate(shards=shards)))
        await writer.drain()
        writer.close()
        wanted = sorted(shard.id for shard in shards)
        await until(lambda: any(line.get("shards") == wanted for line in self.logged("door.shards")))

    def logged(self, event: str) -> list[dict[str, object]]:
        """Give what it logged of an event."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    async def stop(self) -> None:
        """Kill it."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
