"""The process of `llmgw fake-nodes`: joins, says so on standard output, then obeys lines of standard input."""

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
import uvloop
import yaml

from llmgw.config.load import load
from llmgw.config.open_files import raise_open_files
from llmgw.schema.errors import InvalidInput
from llmgw.testing.fake_node import Note
from llmgw.testing.fake_nodes import FakeFleet, FleetFile, NodeGroup
from llmgw.testing.obeyed import ObeyedFile

_YAML = frozenset({".yaml", ".yml"})


def read_groups(file: Path) -> tuple[NodeGroup, ...]:
    """Read a fleet from TOML or YAML. Raises `InvalidInput`."""
    if file.suffix not in _YAML:
        return load(FleetFile, file).nodes
    try:
        return msgspec.convert(yaml.safe_load(file.read_text()), FleetFile).nodes
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise InvalidInput(f"{file} is no fleet: {error}", hint="write nodes: [{kind: h100x8, count: 4}]") from error


def run(
    groups: Sequence[NodeGroup],
    *,
    servers: Sequence[str],
    token: str,
    heartbeat_s: float,
    start_s: float,
    host: str = "127.0.0.1",
    commands: Sequence[str] = (),
    obeyed: Path | None = None,
) -> None:
    """Run until a signal; doors listen on `host`. `commands` are carried out once all joined.

    `obeyed` is a file in which it is noted whom each node obeys and refuses. Raises `InvalidInput`.
    """
    raise_open_files()
    fleet = FakeFleet(groups, server=servers, token=token, heartbeat_s=heartbeat_s, start_s=start_s, host=host)
    with contextlib.ExitStack() as stack:
        note = None if obeyed is None else stack.enter_context(ObeyedFile(obeyed)).note
        uvloop.run(_serve(fleet, commands, note))


async def _serve(fleet: FakeFleet, commands: Sequence[str], note: Note | None) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with fleet:
        for member in fleet.members.values():
            member.node.note = note
        ended = asyncio.ensure_future(stop.wait())
        joined = asyncio.ensure_future(fleet.joined())
        await asyncio.wait({ended, joined}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            joined.cancel()
            return
        await joined
        click.echo(f"joined: {fleet.status()}")
        for command in commands:
            _obey(fleet, command)
        threading.Thread(target=_read_commands, args=(loop, fleet), daemon=True).start()
        await ended


def _read_commands(loop: asyncio.AbstractEventLoop, fleet: FakeFleet) -> None:
    # A thread, since standard input may be a file or a terminal as well as a pipe.
    for line in sys.stdin:
        with contextlib.suppress(RuntimeError):  # the loop ended meanwhile
            loop.call_soon_threadsafe(_obey, fleet, line)


def _obey(fleet: FakeFleet, line: str) -> None:
    try:
        click.echo(fleet.command(line))
    except InvalidInput as error:
        click.echo(f"{error.message}; {error.hint}", err=True)
