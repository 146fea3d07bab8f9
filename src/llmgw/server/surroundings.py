"""What stands around the control planes where it is configured: a replicated store, a floating address."""

import asyncio

from llmgw.schema.floating import FloatingStatus, HostWord
from llmgw.schema.store import StoreState
from llmgw.server.floating_watch import FloatingWatch
from llmgw.server.store_watch import StoreWatch


class Surroundings:
    """Looked at in the background; reading never waits. `None` is what is not configured, or not looked at yet."""

    def __init__(self, *, store: StoreWatch | None = None, floating: FloatingWatch | None = None) -> None:
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

    async def run(self) -> None:
        """Look until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watch in (self._store, self._floating):
                if watch is not None:
                    group.create_task(watch.run())
