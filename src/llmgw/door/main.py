"""The door's entry."""

import asyncio
import signal

import uvloop

from llmgw.config.door import DoorConfig
from llmgw.config.open_files import raise_open_files
from llmgw.door.wiring import run_door
from llmgw.telemetry import log


def run(config: DoorConfig) -> int:
    """Run the door until SIGTERM or SIGINT, drain, give 0. Raises `LlmgwError` for what is wrong in `config`.

    The agent's death does not end it: it keeps the last set of engines it was given.
    """
    log.configure(level=config.log_level, style=config.log_format, process="door")
    raise_open_files()
    uvloop.run(_run(config))
    return 0


async def _run(config: DoorConfig) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await run_door(config, stop)
