"""The agent's entries: run it, or end what it left running."""

import asyncio
import contextlib
import signal
import time
from pathlib import Path

import aiohttp

from llmgw.agent.local_state import LocalState
from llmgw.agent.stop_engines import stop_everything
from llmgw.agent.wiring import Agent
from llmgw.config import disk
from llmgw.config.agent import AgentConfig
from llmgw.config.data_dir import make_data_dir
from llmgw.hardware import proc
from llmgw.schema.errors import InvalidInput
from llmgw.telemetry import log

ROOM_S = 2.0
"""Seconds between two looks for room on a disk that was full before this node ever joined."""

_log = log.get(__name__)


def run(config: AgentConfig) -> int:
    """Run the agent until SIGTERM or SIGINT. Engines and the door outlive it. Raises `LlmgwError` for what is wrong."""
    log.configure(level=config.log_level, style=config.log_format, process="agent")
    proc.become_subreaper()
    make_data_dir(config.data_dir)
    if config.token_file is not None:
        _check_token(Path(config.token_file))
    state = LocalState(config.data_dir)
    _open(state)
    try:
        return asyncio.run(_run(config, state))
    finally:
        state.close()


def stop_engines(config: AgentConfig) -> int:
    """End all engines and the door of the node. Gives 0 once nothing is left; raises `Conflict` beside an agent."""
    log.configure(level=config.log_level, style=config.log_format, process="agent")
    asyncio.run(stop_everything(config))
    return 0


def _open(state: LocalState) -> None:
    """Open the folder; where it is new and its disk is full, once there is room. Raises `Conflict`, `InvalidInput`."""
    told = False
    while True:
        try:
            return state.open()
        except OSError as error:
            if not disk.is_want_of_room(error):
                raise InvalidInput(
                    f"data_dir = {str(state.root)!r} cannot be used: {error.strerror}",
                    hint="choose a folder this user may write",
                    field="data_dir",
                ) from error
        if not told:
            _log.error("agent.disk_full", folder=str(state.root), note="waiting for room")
        told = True
        time.sleep(ROOM_S)


def _check_token(path: Path) -> None:
    """Refuse what can never be a token. A file that is not there yet may come: its control plane makes it."""
    try:
        path.read_text(encoding="utf-8")
    except FileNotFoundError:
        _log.warning("agent.no_token", file=str(path), note="waiting for it")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInput(
            f"token_file = {str(path)!r} cannot be read: {cause}",
            hint="name the file with the token that the control plane expects",
            field="token_file",
        ) from error


async def _run(config: AgentConfig, state: LocalState) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # Engines' connections are not kept: they close idle ones after 5 s, and ours are few.
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
        working = asyncio.create_task(Agent(config, state, session).run())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if working.done():
            working.result()  # it works until cancelled: here is its error
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
    _log.info("agent.ended")
    return 0
