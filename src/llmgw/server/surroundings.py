"""What stands around the control planes: this one's disk and, where configured, a replicated store and an address."""

import asyncio

from llmgw.config.disk import Room
from llmgw.schema.floating import FloatingStatus, HostWord
from llmgw.schema.store import StoreState
from llmgw.schema.summary import Alarm
from llmgw.server.disk_watch import DiskWatch
from llmgw.server.floating_watch import FloatingWatch
from llmgw.server.store_watch import StoreWatch


class Surroundings:
    """Looked at in the background; reading never waits. `None` is what is not configured, or not looked at yet."""

    def __init__(
        self,
        *,
        store: StoreWatch | None = None,
        floating: FloatingWatch | None = None,
        disk: DiskWatch | None = None,
    ) -> None:
        self._disk = disk
        self._store = store
        self._floating = floating

    def store(self) -> StoreState | None:
        """Give the replicated store as it was last seen."""
        return None if self._store is None else self._store.state

    def floating(self) -> FloatingStatus | None:
        """Give the floating address as it was last seen."""
        return None if self._floating is None else self._floating.status

    def own_host(self) -> HostWord | None:
        """Give what this host says of the floating address."""
        return None if self._floating is None else self._floating.own

    def room(self) -> Room | None:
        """Give what is left on the disk of this control plane's own folder."""
        return None if self._disk is None else self._disk.room

    def alarms(self) -> tuple[Alarm, ...]:
        """Say what about this control plane's host needs an operator's eye."""
        return () if self._disk is None else self._disk.alarms()

    async def run(self) -> None:
        """Look until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watch in (self._store, self._floating, self._disk):
                if watch is not None:
                    group.create_task(watch.run())
