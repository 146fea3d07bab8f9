"""The disk of this control plane's own folder, looked at in the background."""

import asyncio
from pathlib import Path

from llmgw.config import disk
from llmgw.config.disk import Room
from llmgw.schema.summary import Alarm, AlarmKind
from llmgw.telemetry import log

LOOK_S = 2.0

_log = log.get(__name__)


class DiskWatch:
    """Looks again and again. `name` is the control plane's."""

    def __init__(self, *, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder
        self._room: Room | None = None

    @property
    def room(self) -> Room | None:
        """What was left at the last look; `None` before the first, and when it cannot be looked at."""
        return self._room

    def alarms(self) -> tuple[Alarm, ...]:
        """Say what is wrong now."""
        if self._room is None or not self._room.is_full:
            return ()
        text = f"the disk of {self._name}'s data_dir {self._folder} is full: make room there, and all goes on by itself"
        return (Alarm(kind=AlarmKind.DISK_FULL, text=text),)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Look once."""
        before = self.alarms()
        try:
            self._room = await asyncio.to_thread(disk.read, self._folder)
        except OSError:
            self._room = None
        now = self.alarms()
        if now and not before:
            _log.error("disk.full", folder=str(self._folder))
        if before and not now:
            _log.info("disk.has_room", folder=str(self._folder))
