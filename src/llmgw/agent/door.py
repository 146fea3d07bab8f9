"""The node's door: its process, kept running like an engine's, and what it is told."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from llmgw.agent import logs, process_group
from llmgw.agent.local_state import LocalState
from llmgw.agent.process_group import ProcessGroup
from llmgw.config.agent import AgentConfig
from llmgw.config.contexts import replace_private
from llmgw.link import frames
from llmgw.schema.door import DoorAddress, DoorUpdate
from llmgw.telemetry import log

TELL_S = 2.0
"""Seconds between two updates when nothing changes: readings age."""
LOOK_S = 0.2
STABLE_S = 10.0
"""A door that lived longer is started again at once."""
FIRST_DELAY_S, MAX_DELAY_S = 0.5, 10.0

_log = log.get(__name__)


class DoorKeeper:
    """Starts or adopts the door, starts it again when it dies, and hands it the engines."""

    def __init__(
        self,
        config: AgentConfig,
        state: LocalState,
        *,
        cgroup_mount: str | None,
        update: Callable[[], DoorUpdate],
        listens: Callable[[str | None], None],
    ) -> None:
        self._config = config
        self._state = state
        self._cgroup_mount = cgroup_mount
        self._update = update
        self._listens = listens
        self._changed = asyncio.Event()
        self.pid: int | None = None

    def changed(self) -> None:
        """Tell the door soon: the engines changed."""
        self._changed.set()

    async def run(self) -> None:
        """Keep the door until cancelled, which leaves it running."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep())
            group.create_task(self._tell())

    async def _keep(self) -> None:
        delay = FIRST_DELAY_S
        while True:
            began = time.monotonic()
            try:
                group = await self._adopt() or await self._start()
            except OSError as error:
                _log.error("door.cannot_start", error=str(error))
            else:
                await self._attend(group)
            delay = FIRST_DELAY_S if time.monotonic() - began > STABLE_S else min(2 * delay, MAX_DELAY_S)
            await asyncio.sleep(delay)

    async def _adopt(self) -> ProcessGroup | None:
        """Take over a running door with the address that is wanted; end any other."""
        identity = self._state.door_process()
        if identity is None:
            return None
        group = process_group.adopt(identity)
        if group is not None and self._is_configured():
            _log.info("door.adopted", pid=identity.pid)
            return group
        if group is not None:
            group.close()
        await process_group.destroy(identity, leader_known=group is not None)
        self._state.save_door_process(None)
        return None

    async def _start(self) -> ProcessGroup:
        # The door takes a free port when this one is taken, and says so in door.json.
        if not self._is_configured():
            replace_private(self._toml, self._text())
        group = process_group.start(
            self._state.door_name,
            (sys.executable, "-P", "-m", "llmgw", "door", "--config", str(self._toml)),
            {},
            owner=self._state.owner,
            log_path=self._log_path,
            cgroup_mount=self._cgroup_mount,
        )
        self._state.save_door_process(group.identity)
        await group.feed(b"")
        _log.info("door.started", pid=group.identity.pid)
        return group

    async def _attend(self, group: ProcessGroup) -> None:
        self.pid = group.identity.pid
        looking = asyncio.create_task(self._find_address(self.pid))
        try:
            status = await group.ended()
        finally:
            looking.cancel()
            group.close()
        self.pid = None
        self._listens(None)
        await group.destroy()
        last = logs.read_tail(self._log_path).strip().rpartition("\n")[2]
        _log.warning("door.died", status=status, last_line=log.redact(last))

    async def _find_address(self, pid: int) -> None:
        """Wait for the door to say where it listens."""
        while True:
            address = self._state.read_private("door.json", DoorAddress)
            if address is not None and address.pid == pid:
                self._listens(address.listen)
                return
            await asyncio.sleep(LOOK_S)

    async def _tell(self) -> None:
        """Hand the door its engines, over one connection as long as it lasts."""
        while True:
            with contextlib.suppress(OSError):  # it is not there, or went: it comes again
                _, writer = await asyncio.open_unix_connection(self._state.root / "door.sock")
                try:
                    while not writer.is_closing():
                        self._changed.clear()
                        writer.write(frames.pack(self._update()))
                        await writer.drain()
                        await self._pause()
                finally:
                    writer.close()
            await asyncio.sleep(LOOK_S)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(TELL_S):
                await self._changed.wait()
        except TimeoutError:
            return

    def _is_configured(self) -> bool:
        return self._toml.exists() and self._toml.read_text() == self._text()

    @property
    def _toml(self) -> Path:
        return self._state.root / "door.toml"

    @property
    def _log_path(self) -> Path:
        return self._state.root / "door.log"

    def _text(self) -> str:
        values = {
            "data_dir": str(self._state.root.absolute()),
            "listen": self._config.door_listen,
            "tls": self._config.tls,
            "log_level": self._config.log_level,
            "log_format": self._config.log_format,
        }
        # Strings look the same in TOML and JSON.
        return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
